"""A real PostgreSQL primary with a real synchronous standby: freeze the replication, promote, come back, again.

The standby is a `pg_basebackup` of the primary and follows it by streaming replication. A commit on the primary waits
for it (`synchronous_standby_names = '*'`, also on the standby once it is promoted).
"""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from tests.support.hosts import Host
from tests.support.leftovers import scratch_folder
from tests.support.postgres import Postgres, PostgresMissing, PostgresServer, installation
from tests.support.processes import until

REPLICATING = {
    "wal_level": "replica",
    "max_wal_senders": "10",
    "hot_standby": "on",
    "wal_retrieve_retry_interval": "200ms",
    "max_wal_size": "64MB",
    "wal_keep_size": "64MB",
    "full_page_writes": "on",  # what pg_rewind needs
}


class Pair:
    """Two servers that take turns as primary and standby."""

    def __init__(self, primary: PostgresServer, standby: PostgresServer) -> None:
        self.primary = primary
        self.standby = standby
        self._frozen: int | None = None

    def url(self, database: str = "postgres") -> str:
        """Both servers in one URL, of which drivers choose the one that is primary at the moment."""
        places = sorted((one.address.host, one.address.port) for one in (self.primary, self.standby))
        hosts = ",".join(f"{host}:{port}" for host, port in places)
        return f"postgresql://postgres@{hosts}/{database}?target_session_attrs=read-write"

    # --- what the primary waits for ---

    def commits_wait_for(self, names: str) -> None:
        """A reload while sessions live: from now on commits of the primary wait for *names*, for nobody when empty."""
        require(self.primary, names)
        if names:
            until(lambda: self.is_synchronous, what="the standby to be synchronous")

    @property
    def is_synchronous(self) -> bool:
        """Whether the standby follows, and the primary's commits wait for it."""
        return ("sync",) in ask(self.primary, "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'")

    def wait_until_followed(self) -> None:
        """Wait until the standby has all that the primary has committed so far."""
        ((upto,),) = ask(self.primary, "SELECT pg_current_wal_lsn()")
        until(
            lambda: ask(self.primary, f"SELECT 1 FROM pg_stat_replication WHERE flush_lsn >= '{upto}'"),
            what="the standby to have all",
        )

    # --- freezing ---

    def freeze(self) -> None:
        """The standby's WAL receiver stops in the middle of what it does: it confirms nothing any more."""
        self._frozen = until(self._receiver, what="a WAL receiver")
        os.kill(self._frozen, signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on, and receives what was sent meanwhile."""
        if self._frozen is not None:
            with suppress(ProcessLookupError):
                os.kill(self._frozen, signal.SIGCONT)
            self._frozen = None

    def _receiver(self) -> int | None:
        rows = ask(self.standby, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walreceiver'")
        return rows[0][0] if rows else None

    # --- failover and return ---

    def crash_the_primary(self) -> None:
        """It comes back by itself, and shows everybody what had waited for the standby."""
        self.primary.stop_immediate()
        self.primary.start()

    def fail_over(self) -> None:
        """The primary crashes, the standby is promoted. What a frozen receiver had not taken is lost."""
        self.primary.stop_immediate()
        if self._frozen is not None:
            os.kill(self._frozen, signal.SIGTERM)  # comes first when it thaws: what is in its socket is never read
        self.thaw()
        self.primary, self.standby = self.standby, self.primary
        ask(self.primary, "SELECT pg_promote(true, 30)")
        until(lambda: ask(self.primary, "SELECT pg_is_in_recovery()") == [(False,)], what="the promotion")

    def come_back(self, *, rewound: bool = False) -> None:
        """The server that crashed returns on its old port as the standby of the other: a new copy, or *rewound*.

        As an operator would, it makes a copy where pg_rewind misses a part of the log that the crash has recycled.
        """
        try:
            if rewound:
                ask(self.primary, "CHECKPOINT")  # pg_rewind reads from the disk on which timeline it is
                self.standby.rewind(self.primary.address)
        except PostgresMissing as missing:
            if "could not find previous WAL record" not in str(missing):
                raise
            rewound = False
        if not rewound:
            self.standby.follow(self.primary.address)
        self.standby.start()
        until(lambda: self.is_synchronous, what="the old primary to follow")

    def close(self) -> None:
        self.thaw()
        self.standby.close()
        self.primary.close()


@contextmanager
def synchronous_pair(
    major: int | None = None,
    *,
    hosts: tuple[Host | None, Host | None] = (None, None),
    envs: tuple[Mapping[str, str] | None, Mapping[str, str] | None] = (None, None),
    folders: tuple[Path, Path] | None = None,
) -> Iterator[Pair]:
    """A primary whose commits wait for its standby; both in memory, or in *folders*, without fsync."""
    with scratch_folder(in_memory=True) as one, scratch_folder(in_memory=True) as other:
        if folders is not None:
            one, other = folders
        chosen = installation(major)
        primary = PostgresServer(chosen, one, durable=False, settings=REPLICATING, host=hosts[0], env=envs[0])
        try:
            primary.start()
            require(primary, "*")  # before the copy is made: the standby must ask for the same when it is promoted
            standby = PostgresServer(
                chosen,
                other,
                durable=False,
                settings=REPLICATING,
                standby_of=primary.address,
                host=hosts[1],
                env=envs[1],
            )
            pair = Pair(primary, standby)
            try:
                standby.start()
                until(lambda: pair.is_synchronous, what="the standby to follow")
                yield pair
            finally:
                pair.close()
        finally:
            primary.close()


def require(server: PostgresServer, names: str) -> None:
    ask(server, f"ALTER SYSTEM SET synchronous_standby_names = '{names}'", "SELECT pg_reload_conf()")
    until(lambda: ask(server, "SHOW synchronous_standby_names") == [(names,)], what="the setting to be read")


def ask(server: PostgresServer | Postgres, *statements: str) -> list[tuple[object, ...]]:
    """The rows of the last of *statements*, each of which is a transaction of its own on that server."""
    address = server.address if isinstance(server, PostgresServer) else server
    with psycopg.connect(address.url(), autocommit=True, connect_timeout=10) as connection:
        cursor = None
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return list(cursor.fetchall()) if cursor is not None and cursor.description else []
