"""`hooklane` and `python -m hooklane`: the command line, or one clear line about why there is none."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        import typer  # noqa: F401
    except ImportError:
        sys.stderr.write("hooklane: HL013 the command line is not installed: run  pip install 'hooklane[server]'\n")
        sys.exit(1)
    from hooklane.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
