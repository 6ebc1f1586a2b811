"""Keys and the sessions that were opened with them."""

from __future__ import annotations

from dataclasses import replace

from hooklane.model.api_key import Scope, SessionKind
from hooklane.model.clock import Instant
from hooklane.store.recovery import AuditFilter
from hooklane.testing.conformance_access.kit import NOW, Store, act, api_key, session


class Keys:
    async def test_a_key_is_kept_as_it_was_added_and_on_record(self, store: Store) -> None:
        plain = api_key()
        bound = api_key(
            "key_b", tenant="acme", scopes=(Scope.ADMIN,), created_at=NOW + 1, expires_at=Instant(NOW + 5), name="é"
        )
        await store.add_key(bound, act=act("key.created", "key_b"))
        await store.add_key(plain, act=act("key.created", "key_a"))

        _, keys = await store.api_keys()

        assert list(keys) == [plain, bound]
        lines = (await store.audit("default", AuditFilter(), None, 10)).items
        assert [(one.act.action, one.act.subject) for one in lines] == [
            ("key.created", "key_a"),
            ("key.created", "key_b"),
        ]

    async def test_the_revision_changes_with_each_key_and_with_nothing_else(self, store: Store) -> None:
        first = await store.key_revision()
        await store.add_key(api_key(), act=act("key.created", "key_a"))
        second = await store.key_revision()
        await store.note_keys_used(["key_a"], NOW)
        await store.add_session(session())
        third, _ = await store.api_keys()
        await store.remove_key("key_a", act=act("key.revoked", "key_a"))
        fourth = await store.key_revision()

        assert second == third
        assert len({first, second, fourth}) == 3

    async def test_a_key_that_is_removed_takes_its_sessions_along_and_no_other(self, store: Store) -> None:
        await store.add_key(api_key(), act=act("key.created", "key_a"))
        await store.add_session(session("ses_a"))
        await store.add_session(session("ses_b", made_with="key_b"))

        assert await store.remove_key("key_a", act=act("key.revoked", "key_a"))

        assert (await store.api_keys())[1] == []
        assert await store.session(session("ses_a").digest) is None
        assert await store.session(session("ses_b").digest) == session("ses_b", made_with="key_b")
        assert (await store.audit("default", AuditFilter(), None, 1)).items[0].act.action == "key.revoked"

    async def test_a_key_that_is_not_there_cannot_be_removed_and_nothing_is_on_record(self, store: Store) -> None:
        assert not await store.remove_key("key_x", act=act("key.revoked", "key_x"))

        assert (await store.audit("default", AuditFilter(), None, 10)).items == []

    async def test_when_a_key_was_used_never_goes_back(self, store: Store) -> None:
        await store.add_key(api_key(), act=act("key.created", "key_a"))
        await store.note_keys_used(["key_a", "key_x"], Instant(NOW + 9))
        await store.note_keys_used(["key_a"], Instant(NOW + 3))

        _, keys = await store.api_keys()

        assert list(keys) == [replace(api_key(), last_used_at=Instant(NOW + 9))]

    async def test_a_session_is_found_by_its_digest_until_it_is_ended(self, store: Store) -> None:
        link = session("ses_b", kind=SessionKind.LINK, tenant=None)
        await store.add_session(session())
        await store.add_session(link)

        assert await store.session(session().digest) == session()
        assert await store.session(link.digest) == link
        assert await store.session(b"x" * 32) is None
        assert await store.remove_session("ses_a")
        assert not await store.remove_session("ses_a")
        assert await store.session(session().digest) is None
        assert await store.session(link.digest) == link

    async def test_a_session_in_use_lasts_longer_and_one_that_was_ended_does_not_come_back(self, store: Store) -> None:
        await store.add_session(session())
        longer = Instant(session().expires_at + 5_000)
        await store.extend_session("ses_a", longer)
        await store.extend_session("ses_a", Instant(longer - 1))

        assert await store.session(session().digest) == replace(session(), expires_at=longer)
        await store.remove_session("ses_a")
        await store.extend_session("ses_a", Instant(longer + 1))
        assert await store.session(session().digest) is None

    async def test_a_new_session_sweeps_out_expired_ones(self, store: Store) -> None:
        await store.add_session(session())
        later = session("ses_b", created_at=Instant(NOW + 1_000), expires_at=Instant(NOW + 2_000))
        await store.add_session(later)

        assert await store.session(session().digest) is None
        assert await store.session(later.digest) == later
