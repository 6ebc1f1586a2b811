"""The sender for application code: publish an event in your own transaction, or in one of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar, overload

from hooklane.core.fanout import places
from hooklane.core.tenant import ID_RULE, is_tenant_id
from hooklane.errors import InvalidEvent, UsageError
from hooklane.model.clock import wall_now
from hooklane.model.event import DEFAULT_TENANT
from hooklane.model.tx import AsyncTx, SyncTx
from hooklane.sender.draft import draft_of
from hooklane.store.caller import AsyncCaller, DatabaseIdentity, Flow, adapt, undoable
from hooklane.store.outbox import Draft, Published, PublishReport, Refused, StoreOptions
from hooklane.store.publish_port import PublishPort, publish_port
from hooklane.telemetry.tracing import publishing

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """One event for `publish_many`."""

    type: str
    data: Any
    key: str | None = None
    id: str | None = None
    endpoints: Sequence[str] | None = None
    idempotency_key: str | None = None


class Outbox:
    """Publishes into the sender's tables at *url*. Delivering is the work of `hooklane serve`, wherever it runs.

    Events are those of *tenant*, which must have been created (`hooklane tenants add`): it is never made by use.
    """

    def __init__(self, url: str, *, tenant: str = DEFAULT_TENANT) -> None:
        if not is_tenant_id(tenant):
            raise UsageError(f"no tenant can have the id {repr(tenant)[:80]}: {ID_RULE}")
        self.url = url
        self._tenant = tenant
        self._port: PublishPort = publish_port(url, StoreOptions(places))

    @property
    def identity(self) -> DatabaseIdentity:
        """The database in which a caller's transaction must be."""
        return self._port.identity

    @overload
    def publish(
        self,
        type: str,
        data: object,
        *,
        key: str | None = None,
        id: str | None = None,
        endpoints: Sequence[str] | None = None,
        idempotency_key: str | None = None,
        tx: AsyncTx,
    ) -> Coroutine[Any, Any, Published]: ...

    @overload
    def publish(
        self,
        type: str,
        data: object,
        *,
        key: str | None = None,
        id: str | None = None,
        endpoints: Sequence[str] | None = None,
        idempotency_key: str | None = None,
        tx: SyncTx = ...,
    ) -> Published: ...

    def publish(
        self,
        type: str,
        data: object,
        *,
        key: str | None = None,
        id: str | None = None,
        endpoints: Sequence[str] | None = None,
        idempotency_key: str | None = None,
        tx: object = ...,
    ) -> Published | Coroutine[Any, Any, Published]:
        """Publish one event; with *tx*, as part of that connection's transaction: it commits or vanishes with it.

        Returns what was published; with an async *tx*, something to await for it. Publish last in a transaction: from
        here to the commit, other publishers of the same key wait for you.
        """
        one = Publish(type=type, data=data, key=key, id=id, endpoints=endpoints, idempotency_key=idempotency_key)
        return self._publish([one], tx, lambda results: results[0])

    @overload
    def publish_many(
        self, events: Sequence[Publish | Mapping[str, Any]], *, tx: AsyncTx
    ) -> Coroutine[Any, Any, list[Published]]: ...

    @overload
    def publish_many(self, events: Sequence[Publish | Mapping[str, Any]], *, tx: SyncTx = ...) -> list[Published]: ...

    def publish_many(
        self, events: Sequence[Publish | Mapping[str, Any]], *, tx: object = ...
    ) -> list[Published] | Coroutine[Any, Any, list[Published]]:
        """Publish several at once, all or none, in order; cheaper than one by one, and free of deadlocks."""
        many = [event if isinstance(event, Publish) else Publish(**event) for event in events]
        return self._publish(many, tx, lambda results: results)

    def close(self) -> None:
        """Let go of the connections that it keeps for publishing without *tx*."""
        self._port.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _publish(
        self, events: Sequence[Publish], tx: object, shape: Callable[[list[Published]], T]
    ) -> T | Coroutine[Any, Any, T]:
        drafts = [self._draft(event) for event in events]
        if drafts:
            with publishing([draft.event for draft in drafts]):
                pass  # the span is the act of publishing; when it commits is the caller's transaction's business
        flow = _published(self._port.flow(drafts))
        if tx is ...:
            return shape(self._port.run(flow))
        caller = adapt(tx)
        if isinstance(caller, AsyncCaller):
            return _later(caller, undoable(flow), self._port.identity, shape)
        return shape(caller.run(undoable(flow), self._port.identity))

    def _draft(self, event: Publish) -> Draft:
        _check_texts(event)
        return draft_of(
            event.type,
            json_bytes(event.data),
            now=wall_now(),
            key=event.key,
            event_id=event.id,
            endpoints=event.endpoints,
            idempotency_key=event.idempotency_key,
            tenant=self._tenant,
        )


async def _later(
    caller: AsyncCaller, flow: Flow[list[Published]], identity: DatabaseIdentity, shape: Callable[[list[Published]], T]
) -> T:
    return shape(await caller.run(flow, identity))


_later.__qualname__ = "Outbox.publish"  # what Python says was never awaited


def _check_texts(event: Publish) -> None:
    """A number or a UUID is the key of many an application: say so, instead of failing somewhere within."""
    texts = {"type": event.type, "key": event.key, "id": event.id, "idempotency_key": event.idempotency_key}
    for name, value in texts.items():
        if not isinstance(value, str) and (value is not None or name == "type"):
            raise InvalidEvent(f"invalid_{name}", f"{name} must be text, got {value!r}: write str(value)")
    listed = event.endpoints
    if listed is not None and (isinstance(listed, str) or not _are_texts(listed)):
        raise InvalidEvent("invalid_endpoints", f"endpoints must be a list of ids, got {listed!r}")


def _are_texts(listed: object) -> bool:
    return isinstance(listed, Collection) and all(isinstance(one, str) for one in listed)


def _published(flow: Flow[PublishReport]) -> Flow[list[Published]]:
    """What was published; one refusal is an error, and then nothing was."""
    report = yield from flow
    for result in report.results:
        if isinstance(result, Refused):
            raise InvalidEvent(result.code, result.detail)
    return [result for result in report.results if isinstance(result, Published)]


def json_bytes(data: Any) -> bytes:
    """*data* as JSON; bytes are taken as JSON already. What JSON has no word for is refused, not guessed."""
    if isinstance(data, bytes):
        return data
    try:
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_no_word).encode()
    except UnicodeEncodeError:
        raise InvalidEvent("invalid_json", "data holds a lone surrogate, which is no text that UTF-8 can say") from None
    except ValueError as error:
        raise InvalidEvent(
            "invalid_json", f"data cannot be JSON ({error}): NaN and Infinity have no JSON form"
        ) from None
    except TypeError as error:  # the name of a member; what it holds is asked of `_no_word`
        raise InvalidEvent("invalid_json", f"data cannot be JSON ({error}): write str(name)") from None
    except RecursionError:
        raise InvalidEvent("too_deep", "data is nested too deeply, or contains itself") from None


_ADVICE = {
    "Decimal": "write str(value), so that no digit is lost, or float(value)",
    "datetime": "write value.isoformat(), with a time zone",
    "date": "write value.isoformat()",
    "UUID": "write str(value)",
    "set": "write sorted(value)",
    "bytes": "write base64.b64encode(value).decode()",
}


def _no_word(value: Any) -> Any:
    kind = type(value).__name__
    advice = _ADVICE.get(kind, "turn it into text, numbers, lists and dicts first")
    raise InvalidEvent("invalid_json", f"data holds a {kind}, which JSON cannot say: {advice}")
