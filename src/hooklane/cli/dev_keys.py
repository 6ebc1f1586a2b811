"""What the keys of `hooklane dev` do: send a sample, replay the last event, turn faults on and off, open, quit."""

from __future__ import annotations

import asyncio
import webbrowser
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from hooklane.cli.dev_screen import Printer
from hooklane.cli.faults import Faults, FaultyCourier
from hooklane.cli.output import talk
from hooklane.errors import HooklaneError
from hooklane.model.event import DEFAULT_TENANT
from hooklane.model.plan import Job, Op
from hooklane.sender.draft import draft_of
from hooklane.sender.plans import Plan, make_plan, run_plan
from hooklane.server.services import Services
from hooklane.store.recovery import Wanted

SAMPLES = ("order.created", "order.updated", "order.paid")
FAULTS = (
    (Faults(), "faults are off"),
    (Faults(drop_ack=1 / 3), "faults: one answer in three is lost on its way back, so copies are sent"),
    (Faults(error=1.0), "faults: the endpoint is down (503), so everything is retried"),
)


class DevKeys:
    """The actions, by key; each says what it did."""

    def __init__(
        self, services: Services, address: str, courier: FaultyCourier, printer: Printer, quit_: Callable[[], None]
    ) -> None:
        self._services = services
        self._address = address
        self._courier = courier
        self._printer = printer
        self._quit = quit_
        self._sent = 0
        self._fault = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def actions(self) -> dict[str, Callable[[], None]]:
        return {
            "s": lambda: self._start(self._send()),
            "r": lambda: self._start(self._replay()),
            "f": self._turn_faults,
            "o": lambda: self._open(),
            "q": self._quit,
        }

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self) -> None:
        order, step = 1 + self._sent // len(SAMPLES), self._sent % len(SAMPLES)
        self._sent += 1
        data = msgspec.json.encode({"order": order, "sample": True})
        draft = draft_of(SAMPLES[step], data, now=self._services.now(), key=f"order:{order}")
        try:
            await self._services.publisher.publish(draft)
        except HooklaneError as error:
            talk(f"the sample was not sent: {error}")

    async def _replay(self) -> None:
        event_id, services = self._printer.last_event, self._services
        if event_id is None:
            talk("nothing was sent yet, so there is nothing to replay")
            return
        now = services.now()
        wanted = Wanted(ids=[event_id])
        plan = await make_plan(services.store, DEFAULT_TENANT, Op.REPLAY, wanted, asked={"ids": "1"}, now=now)
        if not isinstance(plan, Plan) or plan.job.members == 0:
            why = plan.job.refused[0][1] if isinstance(plan, Plan) and plan.job.refused else "it is gone"
            talk(f"{event_id} cannot be replayed: {why}")
            return
        done = await run_plan(services.store, DEFAULT_TENANT, plan.job.id, actor="dev", now=now)
        if isinstance(done, Job):
            services.jobs.wake()
            talk(f"replaying {event_id}")
        else:
            talk(f"{event_id} changed meanwhile: press r again")

    def _turn_faults(self) -> None:
        self._fault = (self._fault + 1) % len(FAULTS)
        self._courier.faults, told = FAULTS[self._fault]
        talk(told)

    def _open(self) -> None:
        if not webbrowser.open(self._address):
            talk(f"no browser could be opened: go to {self._address}")
