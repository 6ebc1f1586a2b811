"""The README, followed as printed by a person with an empty folder and the built wheel: real servers, real HTTP.

Its blocks are programs to save (`python`, named by their first line), commands to type (`sh`, all in one shell) and
what one then sees (`text`). Ids, times, secrets and process numbers may differ from what is printed, and nothing else.
"""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from tests.support.pace import scaled_ms, scaled_s
from tests.support.processes import Child, free_port, http_status, until
from tests.support.tree import ROOT

README = (ROOT / "README.md").read_text("utf-8")
RECEIVER_PORT, SERVER_PORT = 8000, 8787
START_S = 60.0

# --- what the README says ---


@dataclass(frozen=True, slots=True)
class Block:
    """A program to save, or commands to type with what one then sees."""

    language: str
    text: str
    shown: tuple[str, ...] = ()

    @property
    def only_asks(self) -> bool:
        """Whether it may be typed again: handlers run a moment after the answer, so a person may look too early."""
        return "SELECT" in self.text or " ls " in self.text

    @property
    def runs_until_interrupted(self) -> bool:
        return self.text.startswith("hooklane dev")


def blocks(page: str) -> list[Block]:
    """Every fenced block of *page*; an output belongs to the commands above it."""
    found: list[Block] = []
    for language, text in re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        if language == "text":
            assert found, "an output without a command"
            assert found[-1].language == "sh", f"an output without a command: {text}"
            found[-1] = Block("sh", found[-1].text, (*found[-1].shown, *text.splitlines()))
        else:
            found.append(Block(language, text))
    return found


_MAY_DIFFER = [
    (r"\b(evt|ep)_[0-9a-z]{26}\b", r"\1_ID"),
    (r"whsec_\S+", "whsec_SECRET"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r" +\d+ ms", " N ms"),
    (r"_ms=\d+", "_ms=N"),
    (r"process \[\d+\]", "process [N]"),
]


def alike(line: str) -> str:
    """*line* without what may differ from one run to the next."""
    for pattern, word in _MAY_DIFFER:
        line = re.sub(pattern, word, line)
    return line.rstrip()


def unseen(shown: tuple[str, ...], seen: list[str]) -> list[str]:
    """The lines of *shown* that *seen* does not have, in their order; programs in the background may write between."""
    rest = iter([alike(line) for line in seen])
    return [line for line in shown if not any(alike(line) == other for other in rest)]


def not_shown(shown: tuple[str, ...], seen: list[str]) -> list[str]:
    """The lines of *seen* that a person was not told of. A failed handler is tried again later, and told again."""
    told = Counter(alike(line) for line in shown)
    more = Counter[str]()
    for line in seen:
        if not re.search(r"attempt=\d+ status=failed", line):
            more[alike(line)] += 1
    return sorted((more - told).elements())


# --- a person with an empty folder ---


class Person:
    """Types commands into one shell, as into a terminal: what runs in the background writes there too."""

    def __init__(self, folder: Path, env: dict[str, str], running: ExitStack) -> None:
        self.folder = folder
        self._pipe = folder.parent / "typed"
        os.mkfifo(self._pipe)
        words = ["env", "-i", *(f"{name}={value}" for name, value in env.items()), "bash", self._pipe]
        self.shell = running.enter_context(Child(words, log=folder.parent / "terminal.log", cwd=folder))
        self._keyboard = running.enter_context(self._pipe.open("w", buffering=1))
        self._keyboard.write("set -e\n")  # a command that fails ends the shell, and so the test
        self._typed = 0

    def follow(self, block: Block) -> None:
        if block.language == "python":
            name = block.text.partition("\n")[0].removeprefix("# ")
            (self.folder / name).write_text(block.text, "utf-8")
        elif block.only_asks:
            until(lambda: not unseen(block.shown, self.type(block)), what=f"{block.text} to show {block.shown}")
            assert not_shown(block.shown, self.type(block)) == []
        else:
            seen = self.type(block)
            assert not block.shown or block.runs_until_interrupted or not_shown(block.shown, seen) == []

    def type(self, block: Block) -> list[str]:
        """What is on the screen once the commands have ended and all that they are to show was seen."""
        self._typed += 1
        begins, end = len(self.shell.output()), f"typed {self._typed}"
        self._keyboard.write(f"{block.text}echo {end}\n")

        def screen() -> list[str]:
            lines = self.shell.output()[begins:].splitlines()
            return [line for line in lines if line != end]

        if block.runs_until_interrupted:
            self.shell.wait_until(lambda: not unseen(block.shown, screen()), what=str(block.shown), within_s=START_S)
            os.killpg(self.shell.pid, signal.SIGINT)  # as Ctrl-C does
        self.shell.wait_for_line(f"^{end}$", within_s=START_S)
        if not block.only_asks:
            self.shell.wait_until(lambda: not unseen(block.shown, screen()), what=str(block.shown), within_s=START_S)
        return screen()


@pytest.fixture
def running() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def ports(running: ExitStack) -> dict[int, int]:
    """Which port stands for which printed one: itself where it is free, else another."""
    return {printed: _itself_or_another(printed, running) for printed in (RECEIVER_PORT, SERVER_PORT)}


def _itself_or_another(port: int, running: ExitStack) -> int:
    # The same port of UDP, which no server here wants, keeps two runs of this test from choosing the same port of TCP.
    with suppress(OSError), socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: connections of before may linger
        probe.bind(("127.0.0.1", port))
        mine = running.enter_context(socket.socket(type=socket.SOCK_DGRAM))
        mine.bind(("127.0.0.1", port))
        return port
    return free_port()


@pytest.fixture
def person(tmp_path: Path, ports: dict[int, int], running: ExitStack) -> Person:
    """In an empty folder; pip finds the built wheel, and what it depends on is there already."""
    folder, programs = tmp_path / "empty", tmp_path / "programs"
    folder.mkdir()
    programs.mkdir()
    (programs / "python3").write_text(f'#!/bin/sh\nexec {sys._base_executable} "$@"\n')
    (programs / "python3").chmod(0o755)
    env = {
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(_what_the_server_depends_on(tmp_path / "packages")),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_FIND_LINKS": str(_built_wheel(tmp_path / "wheels").parent),
        "PIP_NO_INDEX": "1",
    }
    if ports[SERVER_PORT] != SERVER_PORT:
        env |= {"HOOKLANE_PORT": str(ports[SERVER_PORT]), "HOOKLANE_SERVER": f"http://127.0.0.1:{ports[SERVER_PORT]}"}
    return Person(folder, env, running)


def _built_wheel(folder: Path) -> Path:
    words = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
    env = {**os.environ, "HOOKLANE_COMPILE": ""}
    subprocess.run(words, cwd=ROOT, env=env, check=True, capture_output=True, timeout=scaled_s(60))
    (wheel,) = folder.glob("hooklane-*.whl")
    return wheel


def _what_the_server_depends_on(folder: Path) -> Path:
    """The packages of run.lock alone, from the environment of the tests: what `[server]` forgets to name is missing."""
    folder.mkdir()
    site = Path(sysconfig.get_path("purelib"))
    for name in re.findall(r"^([\w.-]+)==", (ROOT / "requirements" / "run.lock").read_text("utf-8"), re.MULTILINE):
        with suppress(PackageNotFoundError):  # of another platform
            for top in {file.parts[0] for file in distribution(name).files or ()} - {"..", "__pycache__"}:
                (folder / top).symlink_to(site / top)
    return folder


# --- the promises ---


def test_the_readme_can_be_followed_as_printed_from_an_empty_folder(person: Person, ports: dict[int, int]):
    page = README
    for printed, real in ports.items():
        page = page.replace(f":{printed}", f":{real}").replace(f"--port {printed}", f"--port {real}")
    *steps, goodbye = blocks(page)

    for step in steps:
        person.follow(step)

    # What was seen is true: five copies had one effect, and each event of the sender arrived once and in order.
    with sqlite3.connect(person.folder / "receiver.db") as db:
        effects = db.execute("SELECT id, state FROM orders ORDER BY rowid").fetchall()
    db.close()
    assert effects == [(1, "order.created"), (7, "order.created"), (7, "order.paid"), (7, "order.shipped")]
    # The handler that failed was told of at once, by its first attempt.
    failed = re.search(r"attempt=1 status=failed .*lag_ms=(\d+)", person.shell.output())
    assert failed is not None
    assert int(failed[1]) < scaled_ms(2_000)
    # They were signed: the receiver takes nothing else.
    assert post_unsigned(ports[RECEIVER_PORT]) == 401
    # The wheel did this, and not the source.
    (installed,) = person.folder.glob(".venv/lib/python*/site-packages/hooklane/__init__.py")
    assert not installed.is_symlink()
    assert "Traceback" not in person.shell.output()

    person.follow(goodbye)

    for port in ports.values():
        until(lambda port=port: http_status(f"http://127.0.0.1:{port}/") is None, what=f"port {port} to be free again")


def post_unsigned(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=scaled_s(10))
    try:
        connection.request("POST", "/webhooks/hooklane", b'{"id":"evt_1","type":"order.created","data":{"id":9}}')
        return connection.getresponse().status
    finally:
        connection.close()


def test_every_block_of_the_readme_is_one_that_is_followed():
    found = blocks(README)

    assert {block.language for block in found} == {"python", "sh"}
    programs = [block.text for block in found if block.language == "python"]
    assert [text.partition("\n")[0] for text in programs] == ["# receiver.py", "# sender.py"]
    # Short: without the table, which an application has already, eight lines and six.
    assert [len(re.findall(r"^(?!#|.*CREATE TABLE)\s*\S", text, re.MULTILINE)) for text in programs] == [8, 6]


def test_an_output_that_is_not_the_printed_one_is_found():
    shown = ("evt_01m7mxyyk6epbjeb15dj0f6azt  #1  ✓ 200 stored    20 ms", "1 stored")
    real = "evt_01m7mxz0mmwx80azd39cx444v3  #1  ✓ 200 stored     7 ms"

    assert unseen(shown, [real, "a server's line", "1 stored"]) == []
    assert unseen(shown, [real.replace("#1", "#2"), "1 stored"]) == list(shown)
    assert unseen(shown, [real, "2 stored"]) == ["1 stored"]
    assert not_shown(shown, [real, "a warning", "1 stored"]) == ["a warning"]
    assert not_shown(shown, [real, "1 stored", "1 stored"]) == ["1 stored"]
    assert not_shown(shown, [real, "handled attempt=2 status=failed", "1 stored"]) == []


def test_make_run_takes_another_port_and_says_how_to_choose_one(tmp_path: Path):
    port = free_port()
    words = ["make", f"VENV={sys.prefix}", "-o", f"{sys.prefix}/.installed-run", "run"]
    arguments = f"ARGS=--port {port} --no-open --db sqlite:///{tmp_path}/dev.db"

    with Child([*words, arguments], log=tmp_path / "make.log", cwd=ROOT) as child:
        child.wait_for_line(rf"Dashboard +http://127\.0\.0\.1:{port}$", within_s=START_S)
        os.killpg(child.pid, signal.SIGINT)
        child.wait(within_s=START_S)

    assert 'another port: make run ARGS="--port 8790"' in child.output()


def test_make_run_says_what_it_does_while_it_installs():
    words = ["make", "--dry-run", "--always-make", f"VENV={ROOT / 'nowhere'}", "run"]
    told = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True, timeout=scaled_s(20)).stdout

    steps = re.findall(r'^echo "hooklane: (\w+)', told, re.MULTILINE)
    assert steps == ["making", "installing", "installing", "starting"]
