"""`hooklane completion`: what makes a shell complete commands, ids, keys and endpoints."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer

from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.output import show

SHELLS = ("bash", "zsh", "fish", "powershell")
_WHOLE_KEYS = "COMP_WORDBREAKS=${COMP_WORDBREAKS//:/}  # a key such as order:1 is one word"


def completion(
    shell: Annotated[str, typer.Argument(metavar=f"[{'|'.join(SHELLS)}]", help="Which shell it is for.")] = "bash",
) -> None:
    """Completion of commands, ids, keys and endpoints in your shell.

    It prints a script, for instance for ~/.bashrc: eval "$(hooklane completion bash)".
    `hooklane --install-completion` puts it there for you.
    """
    if shell not in SHELLS:
        raise CallFailed(f"the shell is one of {', '.join(SHELLS)}, got {shell!r}", Exit.USAGE)
    make: Any = import_module("typer.completion")  # which does not export what `--show-completion` uses
    script: str = make.get_completion_script(prog_name="hooklane", complete_var="_HOOKLANE_COMPLETE", shell=shell)
    if shell == "bash":
        script = f"{_WHOLE_KEYS}\n{script}"
    show({"shell": shell, "script": script}, script.splitlines)
