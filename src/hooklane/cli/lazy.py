"""How does the command line start quickly? A command's module is imported when the command is asked for.

Every command gets here what all of them have: `--json`, `-q` and `-v`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import typer
import typer.core
from typer.core import TyperGroup

from hooklane.cli.options import add_common_options

if TYPE_CHECKING:
    # Typer brings its own click, or in older versions uses the installed one.
    Command = Any
    Context = Any
    Formatter = Any

PACKAGE = "hooklane.cli"


class _AsGiven:
    """Takes what is of the option's type already as it is; Typer's own reader is made for a value that has to be read.

    Typer reads each value with a validation library, also text, and also the default of an option that was left out:
    importing that library takes longer than most commands do.
    """

    def __init__(self, read_by: Callable[[Any], Any], kind: Any) -> None:
        self._read_by, self._kind = read_by, kind

    def coerce(self, value: Any, param: Any, ctx: Context) -> Any:
        annotation, is_many = self._kind.annotation, param.multiple or param.nargs == -1
        if value is None:
            return () if is_many else None
        if self._kind.parameter_info.parser is None:
            if is_many and annotation == list[str]:
                return list(value)
            if isinstance(annotation, type) and isinstance(value, annotation):
                return value
        return self._read_by(self._kind).coerce(value, param=param, ctx=ctx)


# What is exchanged is not part of Typer's interface: only in the series that it was tried with.
if typer.__version__.startswith("0.29."):
    _read_by = typer.core.build_runtime_param  # type: ignore[attr-defined]
    typer.core.build_runtime_param = partial(_AsGiven, _read_by)  # type: ignore[attr-defined, assignment]


class LazyGroup(TyperGroup):
    """The root: it knows the names of all commands and what they are for, and loads the one that is asked for."""

    table: ClassVar[Mapping[str, str]] = {}

    @staticmethod
    def of(table: Mapping[str, str]) -> type[LazyGroup]:
        """A group with the commands of *table*: name, and what `--help` says of it."""
        return type("Commands", (LazyGroup,), {"table": table})

    def list_commands(self, ctx: Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: Context, cmd_name: str) -> Command:
        if cmd_name not in self.commands and cmd_name in self.table:
            self.commands[cmd_name] = load(cmd_name, self.table[cmd_name])
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            # What a mistyped name may have meant is looked for in the whole table, not in what is loaded.
            if "Did you mean" not in (told := getattr(error, "message", "")) and args:
                from difflib import get_close_matches

                if near := get_close_matches(args[0], self.table):
                    error.message = f"{told.rstrip('.')}. Did you mean {', '.join(map(repr, near))}?"  # type: ignore[attr-defined]
            raise

    def format_commands(self, ctx: Context, formatter: Formatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.table.items()))

    def shell_complete(self, ctx: Context, incomplete: str) -> Any:
        # As the group of click does it, but without loading every command to read its help.
        fitting = {name: about for name, about in self.table.items() if name.startswith(incomplete)}
        if not fitting:
            return super().shell_complete(ctx, incomplete)
        item = _completion_item()
        return [item(name, help=about) for name, about in fitting.items()]


def _completion_item() -> Any:
    try:
        return import_module("typer._click.shell_completion").CompletionItem
    except ImportError:
        return import_module("click.shell_completion").CompletionItem


def load(name: str, about: str) -> Command:
    """The command *name* of the module of the same name."""
    module = import_module(f"{PACKAGE}.{name}")
    holder = typer.Typer(rich_markup_mode=None, add_completion=False)
    holder.callback()(lambda: None)  # a group, also where it holds one command
    if hasattr(module, "app"):
        holder.add_typer(module.app, name=name, help=about)
    else:
        holder.command(name)(getattr(module, name))
    command = typer.main.get_command(holder).commands[name]  # type: ignore[attr-defined]
    for leaf in leaves(command):
        add_common_options(leaf)
    return command


def leaves(command: Command) -> Iterator[Command]:
    """The commands below *command* that do something, itself included."""
    if hasattr(command, "commands"):
        for one in command.commands.values():
            yield from leaves(one)
    else:
        yield command


def help_of(root: Command, arguments: Sequence[str]) -> str | None:
    """The help that *arguments* ask for; None where they ask for none.

    Typer would read `--help` as a value first, for which it loads a validation library: most of the time it takes.
    """
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if not {"--help", "-h"} & set(before):
        return None
    command, context = root, root.context_class(root, info_name="hooklane", **root.context_settings)
    for word in before:
        if word.startswith("-"):
            continue
        found = command.get_command(context, word) if hasattr(command, "commands") else None
        if found is None:
            return None if hasattr(command, "commands") else str(command.get_help(context))
        command, context = found, found.context_class(found, parent=context, info_name=word, **found.context_settings)
    return str(command.get_help(context))
