"""An application with an inbox, and the server that shares its database."""

from dataclasses import dataclass
from typing import Any

from tests.promises.receiving.kit import own_source, signed
from tests.promises.sending.api.conftest import Api
from tests.support.http_client import Answer

from hooklane.errors import Reject
from hooklane.model.inbox import NewRow
from hooklane.model.message import Message
from hooklane.receiver import Inbox
from hooklane.receiver.runner import Run
from hooklane.receiver.steps import transaction


@dataclass
class Site:
    """A server and its database."""

    db: str
    api: Api

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        return await self.api.call(method, f"/api/v1/{path}", body, headers)

    async def get(self, path: str) -> Any:
        answer = await self.call("GET", path)
        assert answer.status == 200, answer
        return answer.json

    async def acts(self) -> list[tuple[str, str, str]]:
        lines = (await self.get("audit"))["items"]
        return [(line["action"], line["subject"], line["note"]) for line in lines]

    async def acts_on(self, subject: str) -> list[str]:
        """What was done with *subject*, the first first."""
        return [action for action, of, _ in reversed(await self.acts()) if of == subject]


class Shop:
    """The application: its handlers do as they are told."""

    def __init__(self, db: str) -> None:
        self.inbox = Inbox(db)
        self.broken = False
        self.seen: list[str] = []
        source = own_source(self.inbox)

        @source.on("order.*", order="none", name="order")
        def order(event: Any, tx: Any) -> None:
            self.seen.append(event.id)
            if self.broken:
                raise Reject("unknown sku\nsecond line")

        @source.on("order.paid", order="none", name="ship")
        def ship(event: Any, tx: Any) -> None:
            self.seen.append(f"{event.id} shipped")

    def receive(self, event_id: str, **options: Any) -> None:
        reply = self.inbox.receive(signed(event_id, **options))
        assert reply.status == 200, reply


def insert(inbox: Inbox, event_id: str, **fields: Any) -> None:
    of_row = {name: fields.pop(name) for name in ("status", "headers", "handlings", "variant") if name in fields}
    message = Message(**{"source": "hooklane", "event_id": event_id, "type": "order.created", "body": b"{}", **fields})
    run(inbox, inbox.store.insert([NewRow(message=message, received_at=inbox.clock(), **of_row)]))


def run(inbox: Inbox, flow: Any) -> Any:
    def plan() -> Any:
        return (yield Run(transaction(flow)))

    return inbox.runner.run(plan())
