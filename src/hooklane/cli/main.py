"""The commands, put together; and how any failure ends: one clear line on stderr and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from hooklane import __version__
from hooklane.cli import (
    audit,
    config,
    dev,
    dlq,
    doctor,
    endpoints,
    events,
    inbox,
    lanes,
    migrate,
    send,
    serve,
    tenants,
    verify,
)
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.options import Json
from hooklane.cli.output import show, talk
from hooklane.cli.tenant_option import add_tenant_option
from hooklane.errors import Broken, ConfigError, HooklaneError

app = typer.Typer(
    name="hooklane",
    help="Webhooks that arrive in order, count once, and never vanish.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
serve.add_to(app)
dev.add_to(app)
send.add_to(app)
verify.add_to(app)
doctor.add_to(app)
app.add_typer(endpoints.app, name="endpoints", help="Where deliveries go.")
app.add_typer(events.app, name="events", help="What was published, and why it waits.")
app.add_typer(lanes.app, name="lanes", help="Which keys wait, and for what.")
app.add_typer(dlq.app, name="dlq", help="Dead letters: look, note, replay, skip.")
app.add_typer(inbox.app, name="inbox", help="What was received: look, replay, skip, prune, work.")
app.add_typer(tenants.app, name="tenants", help="Whose data it is, and what each may use.")
app.add_typer(audit.app, name="audit", help="Who did what, and whether that record is whole.")
app.add_typer(migrate.app, name="migrate", help="The schema of the database.")
app.add_typer(config.app, name="config", help="Which settings hold, and where from.")


@app.command()
def version(as_json: Json = False) -> None:
    """Print the version."""
    show({"version": __version__}, as_json, lambda: [__version__])


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
        owner = option if equals else before if before.startswith("-") else ""
        if not value.strip() and (equals or not option) and owner not in MAY_BE_EMPTY:
            return owner or "an argument"
        before = argument
    return None


def run(arguments: Sequence[str]) -> int:
    """Run a command; its exit code. Only a bug of ours ends in a traceback."""
    command = typer.main.get_command(app)
    add_tenant_option(command)
    if (empty := _empty(arguments)) is not None:
        talk(f"{empty} is empty: give a value")
        return Exit.USAGE
    try:
        code = command.main(list(arguments), prog_name="hooklane", standalone_mode=False)
        return code if isinstance(code, int) else Exit.OK
    except typer.Abort:
        talk("interrupted")
        return Exit.FAILED
    except _WrongUsage as error:
        error.show(sys.stderr)  # type: ignore[attr-defined]
        return Exit.USAGE
    except CallFailed as failure:
        talk(str(failure))
        return failure.exit
    except ConfigError as error:
        for problem in error.problems:
            talk(problem)
        return Exit.FAILED
    except Broken as error:
        talk(str(error))
        return Exit.BROKEN
    except HooklaneError as error:
        talk(str(error))
        return Exit.FAILED
    except BrokenPipeError:
        # The reader of our output went away, as `head` does. Nothing more may be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except KeyboardInterrupt:
        talk("interrupted")
        return Exit.FAILED
