"""The stream: what changes, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator

from hooklane.server.call import Call, Response, Route
from hooklane.server.viewer import Viewer

MEDIA = "text/event-stream"


async def stream(call: Call) -> Response:
    viewer = call.gateway.hub.join(call.headers.get("last-event-id"))
    # A proxy that gathers the answer before it passes it on would make a live page a dead one.
    headers = [("cache-control", "no-store"), ("x-accel-buffering", "no")]
    return Response(200, media=MEDIA, headers=headers, stream=_frames(call, viewer))


async def _frames(call: Call, viewer: Viewer) -> AsyncIterator[bytes]:
    try:
        async for text in viewer.frames():
            yield text
    finally:
        call.gateway.hub.leave(viewer)


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/stream",
        run=stream,
        gives=MEDIA,
        summary="Server-sent events `lanes`, `attempts`, `overview`; after `reset` fetch everything again.",
        tag="overview",
    ),
)
