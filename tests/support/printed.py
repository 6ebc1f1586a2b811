"""A page, followed as printed by a person with an empty folder and the built wheel: real servers, real HTTP.

Its blocks are programs to save (`python`, named by their first line), commands to type (`sh`, all in one shell) and
what one then sees (`text`). Ids, times, secrets and process numbers may differ from what is printed, and nothing else.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.packages import link
from tests.support.processes import Child, free_port, until
from tests.support.tree import ROOT

RECEIVER_PORT, SERVER_PORT = 8000, 8787
START_S = 60.0

# --- what a page says ---


@dataclass(frozen=True, slots=True)
class Block:
    """A program to save, or commands to type with what one then sees."""

    language: str
    text: str
    shown: tuple[str, ...] = ()

    @property
    def only_asks(self) -> bool:
        """Whether it may be typed again: handlers run a moment after the answer, so a person may look too early."""
        return "SELECT" in self.text or bool(re.search(r" ls\b|/applied\n$", self.text))

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
    (r"_ms=[\d.]+", "_ms=N"),
    (r"trace [0-9a-f]{16}", "trace HASH"),
    (r"\(audit \d+\)", "(audit N)"),
    (r"process \[\d+\]", "process [N]"),
    (r"\b\d+s\b", "Ns"),
    (r" {2,}", "  "),
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


def chosen_ports(running: ExitStack, *more: int) -> dict[int, int]:
    """Which port stands for which printed one: itself where it is free, else another."""
    return {printed: _itself_or_another(printed, running) for printed in (RECEIVER_PORT, SERVER_PORT, *more)}


def with_ports(page: str, ports: dict[int, int]) -> str:
    for printed, real in ports.items():
        for before, after in ((":", ""), ("--port ", ""), (" ", "/")):
            page = page.replace(f"{before}{printed}{after}", f"{before}{real}{after}")
    return page


def _itself_or_another(port: int, running: ExitStack) -> int:
    # The same port of UDP, which no server here wants, keeps two runs of this test from choosing the same port of TCP.
    with suppress(OSError), socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: connections of before may linger
        probe.bind(("127.0.0.1", port))
        mine = running.enter_context(socket.socket(type=socket.SOCK_DGRAM))
        mine.bind(("127.0.0.1", port))
        return port
    return free_port()


def environment(home: Path, ports: dict[int, int], packages: Path, wheels: Path) -> dict[str, str]:
    """Of a person whose pip finds the built wheel, and what it depends on is there already."""
    programs = home / "programs"
    programs.mkdir()
    (programs / "python3").write_text(f'#!/bin/sh\nexec {sys._base_executable} "$@"\n')
    (programs / "python3").chmod(0o755)
    env = {
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(packages),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_NO_INDEX": "1",
    }
    if ports[SERVER_PORT] != SERVER_PORT:
        env |= {"HOOKLANE_PORT": str(ports[SERVER_PORT]), "HOOKLANE_SERVER": f"http://127.0.0.1:{ports[SERVER_PORT]}"}
    return env


def packages_of(lock: str, folder: Path) -> Path:
    """The packages of a lock alone, from the environment of the tests: what an extra forgets to name is missing."""
    text = (ROOT / "requirements" / lock).read_text("utf-8")
    return link(re.findall(r"^([\w.-]+)==", text, re.MULTILINE), folder)
