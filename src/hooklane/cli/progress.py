"""How far has long work come? A bar on stderr for a person, nothing that moves where stderr is no terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from hooklane.cli import output
from hooklane.cli.output import Level, aside


@contextlib.contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr for long work; without a terminal one line that says what is done, and none with -q."""
    if output.level is Level.QUIET:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        aside(what)
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True, highlight=False)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
