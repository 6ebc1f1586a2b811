"""Runs the console block of a README: line by line, in a shell, with what it says in place of ports and databases."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.support.node import CONSUMER_CACHE, node, npm
from tests.support.pace import scaled_s
from tests.support.processes import Child, until
from tests.support.tree import SOURCE


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and the output that its comment promises: `…` stands for anything."""

    command: str
    promised: str | None
    in_background: bool


def steps(readme: Path, instead: Mapping[str, str]) -> Iterator[Step]:
    """The commands of the one console block, with each key of *instead* replaced by its value."""
    (block,) = re.findall(r"^```console\n(.*?)^```", readme.read_text(), re.DOTALL | re.MULTILINE)
    for printed, real in instead.items():
        assert printed in block, f"{printed} is not in {readme}"
        block = block.replace(printed, real)
    for line in block.replace("\\\n", " ").splitlines():
        command, _, comment = line.partition("  # ")
        if command.strip() and not command.startswith("#"):
            promised = comment.strip() if comment.strip().startswith(("{", "…")) else None
            yield Step(command.strip().removesuffix("&").strip(), promised, command.strip().endswith("&"))


class Shell:
    """Runs steps in *folder* as one shell would; what is in the background ends with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.outputs: list[str] = []
        self._running = ExitStack()
        self._env = {
            **os.environ,
            "PATH": os.pathsep.join([str(_programs(folder)), str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")]),
            "npm_config_cache": str(CONSUMER_CACHE),
            "npm_config_offline": "true",
        }

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def run(self, step: Step) -> None:
        if step.command.startswith("export "):
            name, _, value = step.command.removeprefix("export ").partition("=")
            self._env[name] = value
        elif step.in_background:
            child = self._running.enter_context(
                Child(["bash", "-c", step.command], log=self.folder / "background.log", env=self._env, cwd=self.folder)
            )
            child.wait_for_line(r"listening on|on http://", within_s=60)
        elif step.promised is not None and step.command.startswith("curl "):
            # What was published arrives a little later: looked at again until it is there.
            until(lambda: self._prints(step), what=f"{step.command} to print {step.promised}")
        else:
            assert self._prints(step), f"{step.command} was to print {step.promised}, printed {self.outputs[-1]}"

    def _prints(self, step: Step) -> bool:
        self.outputs.append(self._output(step.command))
        if step.promised is None:
            return True
        pattern = ".*".join(re.escape(part.strip()) for part in step.promised.split("…"))
        return re.fullmatch(pattern, self.outputs[-1].strip(), re.DOTALL) is not None

    def _output(self, command: str) -> str:
        words = ["bash", "-euo", "pipefail", "-c", command]
        done = subprocess.run(
            words, cwd=self.folder, env=self._env, capture_output=True, text=True, timeout=scaled_s(120), check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


def _programs(folder: Path) -> Path:
    """`node` and `npm` as the README calls them, also where only the wheel has them."""
    programs = folder / ".programs"
    programs.mkdir()
    for name, command in (("node", node()), ("npm", npm())):
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        (programs / name).chmod(0o755)
    return programs
