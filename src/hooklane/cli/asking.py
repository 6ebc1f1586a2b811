"""A command that asks a server or a database: it has `--server` and `--db`, and is called with what answers it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import typer

from hooklane.cli.client import calling
from hooklane.cli.options import Db, Server

Command = Callable[..., None]


def asking(app: typer.Typer, name: str, *, create: bool = False) -> Callable[[Command], Command]:
    """Add a command to *app* whose function takes a `Caller` first, open until the function ends, then its own options.

    With *create* a database that does not exist is made.
    """

    def add(command: Command) -> Command:
        def run(*, server: str | None, db: str | None, **given: Any) -> None:
            with calling(server, db, create=create) as caller:
                command(caller, **given)

        _, *own = inspect.signature(command, eval_str=True).parameters.values()
        where = [
            inspect.Parameter(word, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
            for word, option in (("server", Server), ("db", Db))
        ]
        # From these Typer reads which options there are.
        run.__signature__ = inspect.Signature([*own, *where])  # type: ignore[attr-defined]
        run.__annotations__ = {param.name: param.annotation for param in (*own, *where)}
        run.__doc__ = command.__doc__
        app.command(name)(run)
        return command

    return add
