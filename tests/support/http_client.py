"""A small HTTP/1.1 client on asyncio: it sends exactly the bytes it is told and reads one answer at a time."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from tests.support.pace import scaled_s

WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of a problem."""
        assert self.headers["content-type"] == "application/problem+json", self
        problem = self.json
        assert problem["status"] == self.status
        assert set(problem) == {"type", "title", "status", "detail", "code", "number", "errors"}
        return str(problem["code"])


class Connection:
    """One connection to a server on the loopback."""

    def __init__(self, port: int, headers: Mapping[str, str] | None = None) -> None:
        self.port = port
        self._headers = dict(headers or {})

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**24)
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _it: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.writer.close()

    async def call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        self.writer.write(self.request(method, path, body, headers))
        return await self.answer()

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> bytes:
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = {"host": f"127.0.0.1:{self.port}", **self._headers, **(headers or {})}
        if body is not None:
            fields.setdefault("content-type", "application/json")
            if "transfer-encoding" not in fields:
                fields.setdefault("content-length", str(len(data)))
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + data

    async def answer(self, *, to_head: bool = False) -> Answer:
        async with asyncio.timeout(scaled_s(WITHIN_S)):
            head = await self.reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            status = int(lines[0].split(" ")[1])
            headers = dict(_field(line) for line in lines[1:] if line)
            if headers.get("transfer-encoding") == "chunked":
                return Answer(status, headers, b"".join([chunk async for chunk in self._chunks()]))
            size = 0 if to_head else int(headers.get("content-length", 0))
            return Answer(status, headers, await self.reader.readexactly(size))

    async def _chunks(self):  # type: ignore[no-untyped-def]
        while size := int(await self.reader.readline(), 16):
            yield await self.reader.readexactly(size)
            await self.reader.readline()
        await self.reader.readline()

    async def is_closed(self, within_s: float = 5.0) -> bool:
        """Whether the server ends the connection; whatever it still says is read and dropped."""
        try:
            async with asyncio.timeout(within_s):
                while await self.reader.read(65536):
                    pass
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        return True


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()
