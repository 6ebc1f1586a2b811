"""The receiver of the crash tests counts what a dead sender had sent for the life in which it was sent."""

import asyncio
import socket
import time

from tests.faults.crash.traffic import Receiver

REQUEST = b"POST /hook HTTP/1.1\r\nx-key: k\r\nx-seq: 1\r\nx-attempt: 1\r\nwebhook-id: e\r\ncontent-length: 2\r\n\r\n{}"


async def test_what_waits_to_be_accepted_when_the_sender_dies_counts_for_its_life() -> None:
    """On a busy machine it counted for the next life, in which the copy of it was then called unexplained."""
    async with Receiver() as receiver:
        address, port = receiver.url.removeprefix("http://").removesuffix("/hook").split(":")
        with socket.create_connection((address, int(port))) as sender:
            sender.sendall(REQUEST)
        asyncio.get_running_loop().call_soon(time.sleep, 0.02)  # the machine is busy

        await receiver.next_life()

        assert (receiver.life, [one.life for one in receiver.log]) == (1, [0])
