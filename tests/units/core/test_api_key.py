"""Keys of the API: how they are spelled, how long they live, what they permit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklane.core.api_key import CHANCE_BYTES, is_alive, is_well_formed, key_of, permits, role_of
from hooklane.model.api_key import ApiKey, Scope
from hooklane.model.clock import Instant

chances = st.binary(min_size=CHANCE_BYTES, max_size=CHANCE_BYTES)


@given(chances, chances)
def test_every_chance_has_a_key_of_its_own(one: bytes, other: bytes) -> None:
    assert is_well_formed(key_of(one))
    assert (key_of(one) == key_of(other)) == (one == other)


@given(chances, st.data())
def test_one_wrong_letter_is_a_slip_that_is_seen(chance: bytes, data: st.DataObject) -> None:
    key = key_of(chance)
    place = data.draw(st.integers(0, len(key) - 1))
    letter = data.draw(st.sampled_from([one for one in "0123456789abcdefghijklmnopqrstuvwxyzé_ " if one != key[place]]))

    assert not is_well_formed(key[:place] + letter + key[place + 1 :])
    assert not is_well_formed(key[:place] + key[place + 1 :])
    assert not is_well_formed(key + letter)


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_a_key_lives_until_the_moment_in_which_it_expires_and_not_in_it(expires_at: int, now: int) -> None:
    key = _key(expires_at=Instant(expires_at))

    assert is_alive(key, Instant(expires_at - 1))
    assert not is_alive(key, Instant(expires_at))
    assert is_alive(key, Instant(now)) == (now < expires_at)
    assert is_alive(_key(expires_at=None), Instant(now))


@pytest.mark.parametrize("wanted", Scope)
def test_a_scope_permits_itself_and_an_administrator_everything(wanted: Scope) -> None:
    for held in Scope:
        assert permits({held}, wanted) == (held in (wanted, Scope.ADMIN))
    assert not permits(set(), wanted)


def test_the_page_names_the_most_that_a_caller_may_do() -> None:
    rank = {"publisher": set(), "viewer": {Scope.READ}, "operator": {Scope.READ, Scope.OPERATE}, "admin": set(Scope)}

    assert {role: role_of(scopes) for role, scopes in rank.items()} == {role: role for role in rank}


def _key(*, expires_at: Instant | None) -> ApiKey:
    return ApiKey(
        id="key_1",
        name="one",
        digest=b"",
        scopes=tuple(Scope),
        tenant=None,
        created_at=Instant(0),
        expires_at=expires_at,
    )
