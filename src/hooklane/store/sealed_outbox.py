"""A sender's store whose secrets are sealed at rest: what goes in is sealed, what comes out is open.

Round any back-end, which never sees a key: signing secrets, header values and the query of a URL (where people put
tokens) are sealed text to it. A publisher needs none of these, so it needs no key either.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hooklane.errors import SecretsSealed
from hooklane.model.audit import Act
from hooklane.model.endpoint import Endpoint, EndpointState
from hooklane.store.open import Outbox
from hooklane.store.outbox import Load, News
from hooklane.store.sealing import SealKeys, sealed_with

log = logging.getLogger("hooklane.store")

PLAIN = "plain"
"""What stands for the key of an endpoint that has a secret which is not sealed."""


class SealedOutbox:
    """Everything that a sender's store can do; what is not about endpoints goes to *inner* as it is."""

    def __init__(self, inner: Outbox, keys: SealKeys) -> None:
        self._inner = inner
        self._keys = keys

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def open(self) -> None:
        """Refuse a database whose secrets this process cannot open: it would sign deliveries wrongly."""
        await self._inner.open()
        try:
            for endpoint in await self._inner.endpoints():
                opened(endpoint, self._keys)
        except SecretsSealed as error:
            await self._inner.close()
            raise SecretsSealed(
                f"{error}. Set HOOKLANE_SEAL_KEY (or HOOKLANE_SEAL_KEY_FILE) to the keys of this database, newest first"
            ) from None
        except BaseException:
            await self._inner.close()
            raise

    # endpoints

    async def save_endpoint(self, endpoint: Endpoint, *, expect: Endpoint | None, act: Act | None = None) -> bool:
        kept = await self._inner.endpoint(endpoint.tenant, endpoint.id)
        if (None if kept is None else opened(kept, self._keys)) != expect:
            return False
        # Between the two reads another process may have changed it: then it is not as `kept` says any more.
        return await self._inner.save_endpoint(sealed(endpoint, self._keys), expect=kept, act=act)

    async def endpoint(self, tenant: str, endpoint_id: str) -> Endpoint | None:
        found = await self._inner.endpoint(tenant, endpoint_id)
        return None if found is None else opened(found, self._keys)

    async def endpoints(self, tenant: str | None = None) -> Sequence[Endpoint]:
        return self._opened(await self._inner.endpoints(tenant))

    async def load(self, worker: str, epochs: Mapping[int, int]) -> Load:
        load = await self._inner.load(worker, epochs)
        return replace(load, endpoints=self._opened(load.endpoints))

    async def poll(self, worker: str, pids: Sequence[int], mark: Any) -> News:
        news = await self._inner.poll(worker, pids, mark)
        return replace(news, endpoints=self._opened(news.endpoints)) if news.endpoints else news

    def _opened(self, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        return [self._opened_or_held(one) for one in endpoints]

    def _opened_or_held(self, endpoint: Endpoint) -> Endpoint:
        try:
            return opened(endpoint, self._keys)
        except SecretsSealed as error:
            # Sealed by another process, after this one was started: the others go on.
            log.error("nothing is sent to endpoint %s, all of it is held: %s", endpoint.id, error)
            state = endpoint.state if endpoint.state.is_deleted else EndpointState.DISABLED
            return replace(endpoint, url=endpoint.url.partition("?")[0], keys=(), headers=(), state=state)

    # rotation

    @property
    def seal_key(self) -> str | None:
        """The id of the key that seals; None where nothing is sealed."""
        return self._keys.primary

    async def seals(self) -> Counter[str]:
        """How many endpoints have something that is sealed with each key, or `plain`."""
        return Counter(id for one in await self._inner.endpoints() for id in key_ids(one))

    async def reseal(self, limit: int, act: Act) -> int:
        """Seal up to *limit* endpoints with the first key, those of one tenant in one commit; how many that were.

        0 when all are. What was done stays done, so a rotation that was ended half way goes on where it was.
        """
        todo = [one for one in await self._inner.endpoints() if key_ids(one) - {self.seal_key or PLAIN}]
        mine = [one for one in todo if one.tenant == todo[0].tenant][:limit]
        changes = [(old, sealed(opened(old, self._keys), self._keys)) for old in mine]
        return await self._inner.save_endpoints(changes, act=replace(act, tenant=mine[0].tenant)) if changes else 0


def sealed(endpoint: Endpoint, keys: SealKeys) -> Endpoint:
    """*endpoint* as a store may keep it."""
    return _with_secrets(endpoint, keys.seal)


def opened(endpoint: Endpoint, keys: SealKeys) -> Endpoint:
    """*endpoint* as everything but a store knows it."""
    return _with_secrets(endpoint, keys.open) if any(map(sealed_with, _secrets_of(endpoint))) else endpoint


def _with_secrets(endpoint: Endpoint, turned: Callable[[str, str], str]) -> Endpoint:
    """*endpoint* with each of its secrets *turned*, given the place in which the secret stands."""
    place = f"{endpoint.tenant}\0{endpoint.id}\0"
    base, mark, query = endpoint.url.partition("?")
    return replace(
        endpoint,
        # Bound to the rest of the URL: a token goes to the host that it was given for.
        url=f"{base}?{turned(query, f'{place}url {base}')}" if mark else base,
        keys=tuple(replace(key, secret=turned(key.secret, f"{place}secret")) for key in endpoint.keys),
        headers=tuple((name, turned(value, f"{place}header {name}")) for name, value in endpoint.headers),
    )


def key_ids(endpoint: Endpoint) -> set[str]:
    """With which keys the secrets of an endpoint are sealed, as it stands in the store."""
    return {sealed_with(text) or PLAIN for text in _secrets_of(endpoint) if text}


def _secrets_of(endpoint: Endpoint) -> list[str]:
    query = endpoint.url.partition("?")[2]
    return [query, *(key.secret for key in endpoint.keys), *(value for _, value in endpoint.headers)]
