"""A real PgBouncer in transaction mode, at a host of its own, before whichever server it is pointed at."""

import os
import shutil
import signal
from pathlib import Path

from tests.support.hosts import Host
from tests.support.postgres import NOBODY, Postgres
from tests.support.processes import Child

PORT = 6432


def program() -> str | None:
    return shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")


class PgBouncer:
    """Started when it is pointed at a server for the first time; later it reads its file again."""

    def __init__(self, host: Host, folder: Path) -> None:
        self._host = host
        self._folder = folder / "pgbouncer"
        self._folder.mkdir()
        os.chown(self._folder, NOBODY, NOBODY)
        self._child: Child | None = None
        self.url = f"postgresql://postgres@{host.address}:{PORT}/postgres"

    def point_at(self, server: Postgres) -> None:
        """As an operator does after a failover: change the file, reload, and cut what goes to the old server."""
        settings = self._folder / "pgbouncer.ini"
        users = self._folder / "users.txt"
        users.write_text('"postgres" ""\n')
        settings.write_text(
            f"[databases]\npostgres = host={server.host} port={server.port} dbname=postgres user=postgres\n"
            f"[pgbouncer]\nlisten_addr = {self._host.address}\nlisten_port = {PORT}\nauth_type = any\n"
            f"auth_file = {users}\npool_mode = transaction\ndefault_pool_size = 20\nmax_client_conn = 200\n"
            "server_login_retry = 1\nserver_fast_close = 1\nignore_startup_parameters = extra_float_digits\n"
            "unix_socket_dir =\nserver_connect_timeout = 5\n"
        )
        if self._child is None:
            found = program()
            assert found is not None, "PgBouncer is not installed"
            command = [*self._host.enter, found, "-u", "nobody", str(settings)]
            self._child = Child(command, log=self._folder / "log")
            self._child.wait_for_line("process up")
        else:
            self._child.send(signal.SIGHUP)

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
