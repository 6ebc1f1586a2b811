"""The stream: what changes, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator

from hooklane.sender.transport.open_files import open_files_now
from hooklane.server.call import Call, Param, Response, Route
from hooklane.server.live_stream import TOPICS
from hooklane.server.problem import Problem
from hooklane.server.stream_client import StreamClient

MEDIA = "text/event-stream"


async def stream(call: Call) -> Response:
    # A stream keeps its connection for as long as it likes, and idle ones are never ended to let others in.
    most = max(1, open_files_now().clients // 2)
    if call.services.live_stream.client_count >= most:
        why = f"{most} streams are open, half of all connections that this server may have: the others are for calls"
        raise Problem("too_many_requests", why, headers=[("retry-after", "10"), ("connection", "close")])
    client = call.services.live_stream.join(
        call.tenant, call.headers.get("last-event-id"), _topics(call.query.get("topics"))
    )
    # A proxy that gathers the answer before it passes it on would make a live page a dead one.
    headers = [("cache-control", "no-store"), ("x-accel-buffering", "no")]
    return Response(200, media=MEDIA, headers=headers, stream=_frames(call, client))


async def _frames(call: Call, client: StreamClient) -> AsyncIterator[bytes]:
    try:
        async for text in client.frames():
            yield text
    finally:
        call.services.live_stream.leave(client)


def _topics(text: str | None) -> frozenset[str] | None:
    if text is None:
        return None
    topics = frozenset(text.split(","))
    if unknown := sorted(topics - set(TOPICS)):
        raise Problem(
            "invalid_parameter", f"topics must be one or more of {', '.join(TOPICS)}, got {unknown[0][:40]!r}"
        )
    return topics


ROUTES = (
    Route(
        "GET",
        "/api/v1/stream",
        stream,
        "Server-sent events, one kind a topic; after `reset` fetch everything again.",
        gives=MEDIA,
        query=(Param("topics", f"some of {', '.join(TOPICS)}, with commas; all by default"),),
        tag="overview",
    ),
)
