"""docs/reference/cli.md is what the commands say of themselves."""

from pathlib import Path

from tools import cli_reference


def test_the_page_about_the_command_line_is_made_from_the_commands():
    assert cli_reference.FILE.read_text("utf-8") == cli_reference.page(), "run python -m tools.cli_reference"


def test_every_exit_code_has_a_meaning_on_the_page():
    page = Path(cli_reference.FILE).read_text("utf-8")

    assert set(cli_reference.MEANINGS) == set(cli_reference.Exit)
    assert all(f"| {int(code)} | " in page for code in cli_reference.Exit)
