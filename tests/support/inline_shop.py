"""A receiver as an application has one: an inbox that applies events before it answers, behind uvicorn."""

import socket
import sqlite3
import threading
from pathlib import Path
from typing import Any

import uvicorn
from tests.support.processes import until

from hooklane import asgi
from hooklane.receiver import Inbox


class Shop:
    """Serves in a thread until `close`."""

    def __init__(self, folder: Path, secret: str) -> None:
        self._file = folder / "shop.db"
        with sqlite3.connect(self._file) as conn:
            conn.execute("CREATE TABLE effects (event_id TEXT)")
        conn.close()
        self.inbox = Inbox(f"sqlite:///{self._file}", mode="inline")

        @self.inbox.source("hooklane", [secret]).on("order.*")
        def effect(event: Any, tx: Any) -> None:
            tx.execute("INSERT INTO effects VALUES (?)", (event.id,))

        self._socket = socket.create_server(("127.0.0.1", 0))
        self._server = uvicorn.Server(uvicorn.Config(asgi.app(self.inbox), log_config=None, ws="none"))
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))
        self._thread.start()
        until(lambda: self._server.started, what="the shop to open")

    @property
    def port(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooklane"

    def effects(self) -> list[str]:
        with sqlite3.connect(self._file) as conn:
            found = [name for (name,) in conn.execute("SELECT event_id FROM effects")]
        conn.close()
        return found

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()
        self.inbox.close()
