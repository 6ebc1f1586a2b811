"""The stream: what changes, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from time import monotonic

from hooklane.errors import StoreError
from hooklane.model.size import counted
from hooklane.sender.transport.open_files import open_files_now
from hooklane.server.call import Call, Param, Response, Routes
from hooklane.server.live_stream import TOPICS
from hooklane.server.permission import may_read
from hooklane.server.problem import Problem
from hooklane.server.schema_words import some_of
from hooklane.server.stream_client import StreamClient

MEDIA = "text/event-stream"
LOOK_S = 1.0
"""How long a caller is believed without another look: a revoked key hears so long of what happens."""
LISTS = {topic: f"/api/v1/{topic.replace('_', '-')}" for topic in TOPICS}
"""Of each topic the call that answers its list."""


routes = Routes("overview", "/api/v1/stream")


@routes.get(
    "",
    "Server-sent events, one kind a topic; after `reset` fetch everything again.",
    gives=MEDIA,
    query=(Param("topics", f"some of {', '.join(TOPICS)}, with commas; all by default", some_of(TOPICS)),),
)
async def stream(call: Call) -> Response:
    live, topics = call.services.live_stream, _topics(call)
    # A stream keeps its connection for as long as it likes, and idle ones are never ended to let others in.
    most = max(1, open_files_now().clients // 2)
    free = most - live.client_count
    # Where a tenant has as many as are free, the next is for another tenant (as with the places of deliveries).
    if free <= 0 or (call.caller.tenant is not None and live.count_of(call.tenant) >= free):
        streams = counted(live.client_count, "stream is", "streams are")
        why = f"{streams} open, and {most} may be, half of all connections: come back later"
        raise Problem("too_many_requests", why, headers=[("retry-after", "10"), ("connection", "close")])
    client = live.join(call.tenant, call.headers.get("last-event-id"), topics)
    # A proxy that gathers the answer before it passes it on would make a live page a dead one.
    headers = [("cache-control", "no-store"), ("x-accel-buffering", "no")]
    frames = _frames(call, client)
    return Response(200, media=MEDIA, headers=headers, stream=frames, ended=lambda: live.leave(client))


async def _frames(call: Call, client: StreamClient) -> AsyncIterator[bytes]:
    looked = monotonic()
    async for text in client.frames():
        if monotonic() - looked > LOOK_S:
            if not await _is_still_let_in(call):
                return
            looked = monotonic()
        yield text


async def _is_still_let_in(call: Call) -> bool:
    """Whether this caller could still open the stream: its key may have been revoked, its tenant deleted."""
    if call.auth is None:
        return True
    try:
        return await call.auth.is_still(call.caller, call.headers) and call.tenant in call.services.tenants
    except StoreError:
        return False  # it comes again, and is told then what the trouble is


def _topics(call: Call) -> frozenset[str]:
    """What is told: what the caller asks for, or all of which it may read the list as well."""
    allowed = frozenset(topic for topic, path in LISTS.items() if may_read(call.caller, path))
    if (asked := call.words("topics", TOPICS)) is None:
        return allowed
    topics = frozenset(asked)
    if closed := sorted(topics - allowed):
        raise Problem("forbidden", f"the topic {closed[0]} is not for this caller: it may not read that list either")
    return topics
