"""A receiver with a crowd at its door, that says what it has answered until it is killed.

Usage: python -m tests.promises.receiving.crowding URL threads|loop
"""

import asyncio
import itertools
import os
import sys
import threading
from typing import Any

from tests.promises.receiving.kit import own_source, signed

from hooklane.receiver import Event, Inbox

URL, WHENCE = sys.argv[1:3]
CROWD = 16
inbox = Inbox(URL, "inline")
numbers = itertools.count()


@own_source(inbox, order="none").on("*")
def effect(event: Event, tx: Any) -> None:
    tx.execute("INSERT INTO effects (event_id) VALUES (?)", (event.id,))


def say(id: str, status: int) -> None:
    if status == 200:
        os.write(1, f"answered {id}\n".encode())


def from_a_thread() -> None:
    for number in numbers:
        say(f"evt_{number}", inbox.receive(signed(f"evt_{number}")).status)


async def from_a_task() -> None:
    for number in numbers:
        say(f"evt_{number}", (await inbox.areceive(signed(f"evt_{number}"))).status)


async def from_a_loop() -> None:
    await asyncio.gather(*(from_a_task() for _ in range(CROWD)))


if WHENCE == "loop":
    asyncio.run(from_a_loop())
else:
    for _ in range(CROWD):
        threading.Thread(target=from_a_thread).start()
