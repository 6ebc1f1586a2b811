"""The receiver's side as users run it: `hooklane serve`, and an application with a worker, on one database."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.promises.receiving.kit import SECRET, signed
from tests.support.http_client import Connection
from tests.support.pace import scaled_s
from tests.support.processes import Child, start_listening, until

from hooklane.receiver import Inbox

KEY = "the-key-of-this-test"

APPLICATION = """
import pathlib
from hooklane import Inbox, Reject

inbox = Inbox({db!r})
mended = pathlib.Path({mended!r})


@inbox.source("hooklane", [{secret!r}]).on("order.*", order="none", name="order")
def order(event, tx):
    if not mended.exists():
        raise Reject("unknown sku")
"""


async def test_a_dead_row_is_seen_replayed_and_applied_by_the_applications_worker(
    shared_db: str, start_hooklane: Callable[..., Child], tmp_path: Path
):
    db, mended = shared_db, tmp_path / "mended"
    (tmp_path / "shop.py").write_text(APPLICATION.format(db=db, mended=str(mended), secret=SECRET))
    _, port = await asyncio.to_thread(_serve, start_hooklane, db)

    async with Connection(port, {"authorization": f"Bearer {KEY}"}) as connection:

        async def get(path: str) -> Any:
            answer = await connection.call("GET", f"/api/v1/{path}")
            assert answer.status == 200, answer
            return answer.json

        async def becomes(status: str) -> dict[str, Any]:
            async with asyncio.timeout(scaled_s(20)):
                while True:
                    found = [item for item in (await get("inbox"))["items"] if item["status"] == status]
                    if found:
                        return dict(found[0])
                    await asyncio.sleep(0.05)

        before = await get("inbox")
        with_worker = start_hooklane("inbox", "worker", "shop:inbox")
        await asyncio.to_thread(with_worker.wait_for_line, "working on")
        await asyncio.to_thread(_deliver, db)
        dead = await becomes("dead")
        [letter] = (await get("dead-letters?side=inbox"))["items"]
        mended.touch()
        replayed = await connection.call("POST", f"/api/v1/dead-letters/{letter['id']}/replay")
        done = await becomes("completed")
        [act] = (await get("audit"))["items"]

    assert before["items"] == []
    assert (dead["error"], letter["id"]) == ("Reject: unknown sku", dead["id"])
    assert (replayed.status, replayed.json["replayed"]) == (200, 1)
    assert (done["id"], done["attempts"]) == (dead["id"], 1)
    assert (act["action"], act["subject"]) == ("inbox.replayed", dead["id"])


def _serve(start_hooklane: Callable[..., Child], db: str) -> tuple[Child, int]:
    return start_listening(
        lambda port: start_hooklane("serve", "--db", db, "--port", str(port), env={"HOOKLANE_API_KEY": KEY}),
        lambda child, port: child.wait_for_http(f"http://127.0.0.1:{port}/readyz", status=200),
    )


def _deliver(db: str) -> None:
    inbox = Inbox(db)
    try:
        inbox.source("hooklane", [SECRET]).on("order.*", order="none", name="order")(lambda event, tx: None)
        assert inbox.receive(signed("evt_1")).status == 200
        until(lambda: inbox.rows(event_id="evt_1"), what="the row")
    finally:
        inbox.close()
