"""The console blocks of a page: which commands they have, typed into one shell, and whether they show what is printed.

What is printed may be wrapped, and may leave parts out with `…`. An id that a page prints stands for the real one from
then on, so that the next command can use it.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.pace import scaled_s
from tests.support.processes import Child, free_port

_BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_PROMPT = re.compile(r"^[\w-]*\$ +")
_ID = re.compile(r"\b((?:evt|ep|dlv|key|pln|hl)_|whsec_)([\w+/=]*…?)")
_STAYS = re.compile(
    r"^(\w+=\S+ +)*(hooklane (serve|dev|listen)\b|uvicorn |python -m uvicorn|(python -m )?gunicorn |flask .*\brun\b"
    r"|python \S+ runserver)"
)
_READY = r"serving|Uvicorn running|Listening at|Running on|Starting development server|Quit the server"


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and what a person then sees."""

    command: str
    shown: str = ""


def blocks_of(page: Path) -> list[Block]:
    """Every fenced block of *page*, also inside a list."""
    found = []
    for indent, language, text in _BLOCK.findall(page.read_text("utf-8")):
        found.append(Block(language, re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)))
    return found


def steps_of(text: str) -> list[Step]:
    """The commands of a console block: what stands behind a prompt, or each line where there is no prompt at all."""
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    if all(line.startswith("# ") for line in lines if line):
        return [Step(line[2:]) for line in lines if line]
    if not any(_PROMPT.match(line) for line in lines):
        return [Step(line) for line in lines if line.strip() and not line.startswith("#")]
    steps: list[Step] = []
    for line in lines:
        if _PROMPT.match(line):
            steps.append(Step(_PROMPT.sub("", line)))
        elif line.strip() and steps:
            steps[-1] = Step(steps[-1].command, f"{steps[-1].shown} {line}".strip())
    return steps


def expected(shown: str) -> tuple[re.Pattern[str], list[str]]:
    """A pattern for what is printed, with a group for each id, and those ids."""
    shown = re.sub(r"\s{2,}# .*?(?=  |$)", "", shown)
    ids: list[str] = []
    parts: list[str] = []
    at = 0
    for match in _ID.finditer(shown):
        parts += [_loosely(shown[at : match.start()]), rf"({match[1]}[\w+/=-]+)"]
        ids.append(match[0])
        at = match.end()
    parts.append(_loosely(shown[at:]))
    return re.compile("".join(parts), re.DOTALL), ids


def _loosely(text: str) -> str:
    pattern = re.escape(text).replace("https://…", "…").replace("…", ".*?")
    pattern = re.sub(r"\d{4}\\-\d\d\\-\d\dT[\d:.\\]+Z", r"\\S+Z", pattern)
    pattern = re.sub(r"(\\ )*\d+\\ ms\b", r"\\s+\\d+ ms", pattern)
    return re.sub(r"(\\\s)+", r"\\s+", pattern)


@dataclass(slots=True)
class Typist:
    """A person at one shell, from an empty folder."""

    folder: Path
    env: dict[str, str]
    stands_for: dict[str, str] = field(default_factory=dict)
    """What is written instead of words of the page: ids, addresses of databases, secrets."""
    answers: str = ""
    """What is typed when a command asks."""
    may_end_with: dict[str, int] = field(default_factory=dict)
    """By the beginning of a command: another exit code than 0 that the page tells of."""
    stays: list[Child] = field(default_factory=list)

    def follow(self, steps: list[Step]) -> None:
        """Every command ends well and shows what is printed; what stays is started and left until `leave`."""
        carried = self.folder.parent / "carried.sh"  # variables and the folder go from one command to the next
        carried.touch()
        for step in steps:
            command = self._meant(step.command)
            if _STAYS.match(command):
                self._stay(re.sub(r"\s*(&|#.*)?$", "", command), carried)
                continue
            if "confirm:" in step.shown:  # it asks, and only at a terminal
                command = f"script -qec {shlex.quote(command)} /dev/null"
            script = f'. {carried}\n{command}\ncode=$?\nexport -p > {carried}\necho "cd $PWD" >> {carried}\nexit $code'
            done = subprocess.run(
                ["bash", "-c", script],
                cwd=self.folder,
                env=self.env,
                input=self.answers,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=scaled_s(120),
            )
            seen = done.stdout
            told = [code for begin, code in self.may_end_with.items() if step.command.startswith(begin)]
            assert done.returncode in (0, *told), f"{command}\nended with {done.returncode}:\n{seen}"
            if step.shown:
                self._compare(Step(step.command, self._without_answers(step.shown)), seen)

    def _compare(self, step: Step, seen: str) -> None:
        pattern, ids = expected(step.shown)
        found = pattern.search(seen) or pattern.search(" ".join(seen.split()))
        assert found is not None, f"{step.command}\nis to show\n{step.shown}\nand shows\n{seen}"
        self.stands_for |= dict(zip(ids, found.groups(), strict=True))

    def _without_answers(self, shown: str) -> str:
        """A terminal echoes what is typed when it comes, not behind the question."""
        for answer in self.answers.splitlines():
            shown = shown.replace(f": {answer}", ":")
        return shown

    def _meant(self, command: str) -> str:
        for printed in sorted(self.stands_for, key=len, reverse=True):
            command = command.replace(printed, self.stands_for[printed])
        return command

    def _stay(self, command: str, carried: Path) -> None:
        port = "" if "--port" in command else f"export HOOKLANE_PORT={free_port()}\n"
        log = self.folder.parent / f"stays-{len(self.stays)}.log"
        words = ["env", "-i", *(f"{name}={value}" for name, value in self.env.items())]
        child = Child([*words, "bash", "-c", f". {carried}\n{port}{command}"], log=log, cwd=self.folder)
        self.stays.append(child)
        child.wait_for_line(_READY, within_s=60)

    def leave(self) -> None:
        """End what stays."""
        for child in self.stays:
            child.close()
