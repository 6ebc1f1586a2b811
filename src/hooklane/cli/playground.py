"""The playground's calls: scenarios by name, one run at a time and off the event loop, and a shot at a real receiver.

Composed here because the engine that plays is shipped under `testing`, which the server must not know.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import msgspec

from hooklane.core.signing import Signer
from hooklane.errors import ConfigError
from hooklane.model.endpoint import SigningKey
from hooklane.server.call import Call, Response, Routes, answer
from hooklane.server.problem import Problem
from hooklane.testing.play.aim import Aimed, aim
from hooklane.testing.play.export_test import export_test
from hooklane.testing.play.run import TooLong, play
from hooklane.testing.play.scenarios import SCENARIOS, Question
from hooklane.testing.play.trace import EVENTS_MAX, KEYS_MAX, RATE_MAX, RECEIVERS, Faults, Play, Trace

TOOK_S_MAX = 10.0
WAITING_MAX = 4
"""More than so many wait for no one: they are told to come back."""


class ScenarioView(msgspec.Struct, frozen=True):
    name: str
    title: str
    about: str
    questions: tuple[Question, ...]
    crowd: Faults
    """The chances when it is played with many events."""


class Scenarios(msgspec.Struct, frozen=True):
    scenarios: list[ScenarioView]
    receivers: list[str]
    events_max: int
    keys_max: int
    rate_max: int


class Exported(msgspec.Struct, frozen=True):
    """A test file, as text."""

    name: str
    text: str


class AimBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run, and the receiver that is to get its copies: on this machine or in a network that the operator allowed."""

    url: str
    secret: str
    play: Play = Play()


class Playground:
    """One playground for a server: a second call waits for the first."""

    def __init__(self, allow: Sequence[str]) -> None:
        self._allow = tuple(allow)
        self._turn = asyncio.Lock()
        self._waiting = 0

    def routes(self) -> Routes:
        routes = Routes("playground", "/api/v1/sim")
        routes.get("", "The playground's scenarios.", answers=Scenarios)(self.show)
        routes.post("", "Play a scenario; the whole trace in one answer.", takes=Play, answers=Trace, searches=True)(
            self.run
        )
        routes.post("/export", "A scenario as a pytest test.", takes=Play, answers=Exported, searches=True)(self.export)
        routes.post("/aim", "Send a scenario's copies to a receiver.", takes=AimBody, answers=Aimed)(self.shoot)
        return routes

    async def show(self, call: Call) -> Response:
        return answer(scenarios())

    async def run(self, call: Call) -> Response:
        return answer(await self._played(call.read(Play)))

    async def export(self, call: Call) -> Response:
        asked = call.read(Play)
        trace = await self._played(asked)
        return answer(Exported(f"test_{trace.scenario.replace('-', '_')}.py", export_test(trace, more=options(asked))))

    async def shoot(self, call: Call) -> Response:
        body = call.read(AimBody)
        try:
            Signer([SigningKey(body.secret)])
        except ConfigError:
            raise Problem("invalid_body", "secret must be the signing secret of your receiver, whsec_…") from None
        trace = await self._played(body.play)
        return answer(await aim(trace, body.url, [body.secret], self._allow))

    async def _played(self, asked: Play) -> Trace:
        if self._waiting >= WAITING_MAX:
            raise Problem("too_many_requests", "the playground plays one scenario at a time; try again in a moment")
        self._waiting += 1
        try:
            async with self._turn:
                return await _in_thread(asked)
        except TooLong as error:
            raise Problem("invalid_body", str(error)) from None
        finally:
            self._waiting -= 1


async def _in_thread(asked: Play) -> Trace:
    """A thread cannot be cancelled: where the client leaves, the run is told so, and its turn lasts until it ends."""
    gone = threading.Event()
    running = asyncio.ensure_future(asyncio.to_thread(play, asked, took_s_max=TOOK_S_MAX, is_unwanted=gone.is_set))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        gone.set()
        await asyncio.wait([running])
        running.exception()  # read here, since no other task awaits it
        raise


def scenarios() -> Scenarios:
    """What can be played."""
    shown = [msgspec.convert(one, ScenarioView, from_attributes=True) for one in SCENARIOS]
    return Scenarios(shown, list(RECEIVERS), EVENTS_MAX, KEYS_MAX, RATE_MAX)


def options(asked: Play) -> str:
    """The options of `hooklane simulate` that ask for the same, besides scenario and seed."""
    words = [f"--events {asked.events or 0}"]
    words += [] if asked.keys is None else [f"--keys {asked.keys}"]
    words += [] if asked.rate is None else [f"--rate {asked.rate}"]
    if asked.faults is not None:
        usual = msgspec.to_builtins(Faults())
        given: dict[str, Any] = msgspec.to_builtins(asked.faults)
        words += [f"--fault {_dashed(name)}={_text(value)}" for name, value in given.items() if value != usual[name]]
    return "".join(f" {word}" for word in words)


def _text(value: str | float) -> str:
    return _dashed(value) if isinstance(value, str) else f"{value:g}"


def _dashed(word: str) -> str:
    return word.replace("_", "-")
