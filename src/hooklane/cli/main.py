"""Which commands are there, and how does any failure end? With one clear line on stderr and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from hooklane import __version__
from hooklane.cli import output
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.lazy import LazyGroup, help_of
from hooklane.cli.output import complain, say
from hooklane.error_numbers import number_named, number_of
from hooklane.errors import Broken, ConfigError, HooklaneError, StoreBusy, StoreUnavailable

# One line for each: the name, which is that of its module in this folder, and what `--help` says of it. The module is
# imported when its command is asked for: it has an `app` with commands of its own, or a function of the same name.
COMMANDS = {
    "dev": "Run everything on this machine, for development.",
    "serve": "Take events, keep them, deliver them in order.",
    "listen": "Receive webhooks here, verify them, and show or forward them.",
    "send": "Publish an event, or post copies of one to a receiver.",
    "tail": "Show attempts as they happen.",
    "events": "What was published, and why it waits.",
    "lanes": "Which keys wait, and for what.",
    "dlq": "Dead letters: look, note, replay, skip.",
    "endpoints": "Where deliveries go.",
    "inbox": "What was received: look, replay, skip, prune, work.",
    "reconcile": "What lies between a sender and a receiver, by key, and what mends it.",
    "verify": "Say whether a request's signature fits, and if not, why.",
    "simulate": "Play a scenario: the real sender in a simulated network, and receivers side by side.",
    "bench": "Measure publishing and delivering for a minute, with the limit of this machine beside each figure.",
    "doctor": "Check that everything is as it should be.",
    "tenants": "Whose data it is, and what each may use.",
    "audit": "Who did what, and whether that record is whole.",
    "keys": "Who may call the API, and for what.",
    "secrets": "How secrets of endpoints are kept.",
    "types": "Which events there are, and their schemas.",
    "migrate": "The schema of the database.",
    "config": "Which settings hold, and where from.",
    "completion": "Completion of commands, ids, keys and endpoints in your shell.",
    "version": "Print the version.",
}

app = typer.Typer(
    cls=LazyGroup.of(COMMANDS),
    name="hooklane",
    help="Webhooks that arrive in order, count once, and never vanish.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def root(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


# Typer brings its own click, or in older versions uses the installed one: this is the root of either's errors.
_WrongUsage: type[Exception] = typer.BadParameter.__mro__[2]


MAY_BE_EMPTY = ("--note", "--egress-allow")


def _empty(arguments: Sequence[str]) -> str | None:
    """Which argument is empty: `endpoints pause "$ID"` of a script whose ID is not set must not act on anything."""
    before = ""
    for argument in arguments:
        option, equals, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
        owner = option if equals else before if before.startswith("-") and before != "--" else ""
        if not value.strip() and (equals or not option) and owner not in MAY_BE_EMPTY:
            return owner or "an argument"
        before = argument
    return None


def _undecoded(arguments: Sequence[str]) -> str | None:
    """Which argument has bytes that are no text here: no key, id or address could be made of it."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            return argument.encode("utf-8", "backslashreplace").decode()
    return None


def exit_after(error: HooklaneError) -> Exit:
    """The exit code of a command that ended with *error*."""
    match error:
        case CallFailed(exit=code):
            return code
        case Broken():
            return Exit.BROKEN
        case StoreBusy():
            return Exit.FAILED  # the store was reached; another transaction holds it
        case StoreUnavailable():
            return Exit.UNREACHABLE
        case _:
            return Exit.FAILED


def run(arguments: Sequence[str]) -> int:
    """Run a command; its exit code. Only a bug of ours ends in a traceback."""
    output.level, output.as_json = output.Level.NORMAL, False
    output.open_what_is_closed()
    try:
        if list(arguments) == ["--version"]:
            say(__version__)
            return Exit.OK
        command = typer.main.get_command(app)
        if (empty := _empty(arguments)) is not None:
            complain(f"{number_named('USAGE')} {empty} is empty: give a value")
            return Exit.USAGE
        if (undecoded := _undecoded(arguments)) is not None:
            why = f"{undecoded} is not text in {sys.getfilesystemencoding()}, in which arguments are read here"
            complain(f"{number_named('USAGE')} {why}: write it in UTF-8, and set LANG=C.UTF-8 where no locale is set")
            return Exit.USAGE
        if (told := help_of(command, arguments)) is not None:
            say(told)
            return Exit.OK
        from hooklane.config import unknown_variables  # which a person who asks for help need not wait for

        for line in unknown_variables(os.environ):
            complain(line)
        code = command.main(list(arguments), prog_name="hooklane", standalone_mode=False)
        return code if isinstance(code, int) else Exit.OK
    except typer.Abort:
        complain("interrupted")
        return Exit.FAILED
    except _WrongUsage as error:
        told = error.format_message()  # type: ignore[attr-defined]
        error.format_message = lambda: f"{number_named('USAGE')} {told}"  # type: ignore[attr-defined]
        error.show(sys.stderr)  # type: ignore[attr-defined]
        return Exit.USAGE
    except ConfigError as error:
        for problem in error.problems:
            complain(f"{number_of(error)} {problem}")
        return Exit.FAILED
    except HooklaneError as error:
        complain(f"{number_of(error)} {error}")
        return exit_after(error)
    except BrokenPipeError:
        output.close_stdout()  # its reader went away, as `head` does
        return Exit.OK
    except output.Unwritten as error:
        output.close_stdout()
        complain(f"{number_named('FAILED')} what was to be printed cannot be written: {error.strerror}")
        return Exit.FAILED
    except KeyboardInterrupt:
        complain("interrupted")
        return Exit.FAILED
