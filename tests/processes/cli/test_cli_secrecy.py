"""No command, no error and no log line shows a password of the database."""

import logging
from collections.abc import Callable

import pytest
from tests.processes.cli.conftest import Ended

from hooklane.config import load

PASSWORD = "s3cr3t-W0rd"
CLOSED = "127.0.0.1:1"
ADDRESSES = [
    f"postgresql://app:{PASSWORD}@{CLOSED}/shop",
    f"postgresql://{CLOSED}/shop?user=app&password={PASSWORD}",
    f"postgresql://app:with/{PASSWORD}@{CLOSED}/shop",
    f"postgresql://app:{PASSWORD}/@{CLOSED}/shop",
    f"postgresql://app:100%{PASSWORD}@{CLOSED}/shop",
    f"postgresql://app:two words {PASSWORD}@{CLOSED}/shop",
    f"postgresql://app:at@{PASSWORD}@{CLOSED}/shop",
    f"host=127.0.0.1 port=1 user=app password={PASSWORD}",
    f"mysql://app:{PASSWORD}@{CLOSED}/shop",
]
COMMANDS = [
    ("bench", "--seconds", "1"),
    ("config", "show", "--origin"),
    ("config", "show", "--json"),
    ("doctor",),
    ("lanes", "ls"),
    ("migrate", "status"),
    ("migrate", "up"),
    ("serve", "--no-auth", "--port", "0"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("address", ADDRESSES)
def test_a_command_never_shows_the_password_of_the_database(
    cli: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    address: str,
    command: tuple[str, ...],
):
    monkeypatch.setenv("HOOKLANE_DB", address)
    with caplog.at_level(logging.DEBUG):
        ended = cli(*command)

    told = ended.out + "\n".join(ended.talk) + caplog.text
    assert "HOOKLANE_DB" in told or "127.0.0.1" in told
    assert PASSWORD not in told


@pytest.mark.parametrize(
    "address", [*ADDRESSES, f"redis://:{PASSWORD}@{CLOSED}/0", f"redis+cluster://u:a/{PASSWORD}@h"]
)
def test_the_commands_of_the_inbox_never_show_the_password_of_its_store(cli: Callable[..., Ended], address: str):
    ended = cli("inbox", "stats", "--store", address)

    assert ended.code != 0
    assert PASSWORD not in ended.out + "\n".join(ended.talk)


def test_a_server_with_a_password_in_its_url_is_named_without_it(cli: Callable[..., Ended]):
    ended = cli("lanes", "ls", "--server", f"http://me:{PASSWORD}@{CLOSED}")

    assert ended.code == 5
    assert PASSWORD not in "\n".join(ended.talk)


def test_settings_do_not_show_the_password_when_they_are_printed():
    settings, _ = load({}, {"HOOKLANE_DB": ADDRESSES[0]})

    assert PASSWORD not in repr(settings)
