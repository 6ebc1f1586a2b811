"""The command line: in this process on a database of its own, or as a real process."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
from tests.support.fork_server import fork
from tests.support.pace import scaled_s
from tests.support.processes import Child, free_port
from tests.support.tree import SOURCE

from hooklane.cli.main import run


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def talk(self) -> list[str]:
        """The lines on stderr; a traceback is never one of them."""
        assert "Traceback" not in self.err, self.err
        return self.err.splitlines()


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the machine's own settings, and a folder of one's own."""
    for name in list(os.environ):
        if name.startswith("HOOKLANE_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Runs a command in this process."""

    def call(*arguments: str) -> Ended:
        capsys.readouterr()
        code = run(arguments)
        told = capsys.readouterr()
        return Ended(int(code), told.out, told.err)

    return call


@pytest.fixture
def db(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A database that commands use directly."""
    path = tmp_path / "direct.db"
    monkeypatch.setenv("HOOKLANE_DB", f"sqlite:///{path}")
    monkeypatch.setenv("HOOKLANE_EGRESS_ALLOW", "127.0.0.0/8")
    return path


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., Ended]:
    """Runs a command as a process to its end; forked from one that has read the modules, unless told how it is born."""

    def call(
        *arguments: str, env: dict[str, str] | None = None, stdin: bytes = b"", within_s: float = 20, born: Any = fork
    ) -> Ended:
        with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            process = born(
                [sys.executable, "-m", "hooklane", *arguments],
                stdin=given,
                stdout=out,
                stderr=err,
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": SOURCE, **(env or {})},
            )
            try:
                code = process.wait(scaled_s(within_s))
            finally:
                process.kill()
            told = []
            for file in (out, err):
                file.seek(0)
                told.append(file.read().decode())
            return Ended(code, *told)

    return call


@pytest.fixture
def server(start_hooklane: Callable[..., Child], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A real `hooklane serve` that commands ask by default; its URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    child = start_hooklane(
        "serve",
        "--db",
        f"sqlite:///{tmp_path}/served.db",
        "--port",
        str(port),
        "--egress-allow",
        "127.0.0.0/8",
        env={"HOOKLANE_API_KEY": "a-key-for-the-tests"},
    )
    child.wait_for_http(f"{url}/readyz", status=200)
    monkeypatch.setenv("HOOKLANE_SERVER", url)
    monkeypatch.setenv("HOOKLANE_API_KEY", "a-key-for-the-tests")
    yield url
    assert child.stop() == 0
