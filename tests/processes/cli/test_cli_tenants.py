"""`hooklane tenants`, and `--tenant` on every command that asks a server or a database."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.processes.cli.conftest import Ended

Cli = Callable[..., Ended]
URL = "http://127.0.0.1:9/hook"


def test_a_tenant_is_added_limited_suspended_and_deleted(cli: Cli, db: Path):
    added = cli("tenants", "add", "acme", "--name", "Acme", "--events-per-s", "5")
    quota = cli("tenants", "quota", "acme", "--endpoints", "3", "--events-per-s", "none", "--json")
    suspended = cli("tenants", "suspend", "acme")
    refused = cli("send", "order.created", "{}", "--tenant", "acme")
    resumed = cli("tenants", "resume", "acme")
    deleted = cli("tenants", "rm", "acme", "--backlog", "cancel", "--yes")
    listed = cli("tenants", "ls")

    assert (added.code, added.out) == (0, "created tenant acme\n")
    assert quota.json == {"v": 1, "events_per_s": None, "endpoints": 3, "bytes": None}
    assert (suspended.out, resumed.out) == ("acme is suspended\n", "acme is active\n")
    assert (refused.code, "suspended" in refused.err) == (4, True)
    assert deleted.code == 0
    assert [line.split()[:2] for line in listed.out.splitlines()[1:]] == [["acme", "cancelling"], ["default", "active"]]


def test_a_command_acts_for_the_tenant_that_it_is_given(cli: Cli, db: Path, monkeypatch: pytest.MonkeyPatch):
    for tenant in ("acme", "other"):
        cli("tenants", "add", tenant)
        assert cli("endpoints", "add", URL, "--name", f"at-{tenant}", "--tenant", tenant).code == 0
    sent = cli("send", "order.created", "{}", "--key", "k", "--tenant", "acme", "--json")

    assert "at-acme" in cli("endpoints", "ls", "--tenant", "acme").out
    assert "at-acme" not in cli("endpoints", "ls").out
    monkeypatch.setenv("HOOKLANE_TENANT", "acme")
    assert sent.json["id"] in cli("events", "ls").out
    assert sent.json["id"] not in cli("events", "ls", "--tenant", "other").out
    assert cli("lanes", "why", "k", "--endpoint", "at-acme").code == 0
    monkeypatch.setenv("HOOKLANE_TENANT", "nobody")
    assert (cli("events", "ls").code, cli("dlq", "export").code, cli("tenants", "ls").code) == (3, 3, 0)


def test_an_id_or_quota_that_cannot_be_is_one_line_that_says_what_can(cli: Cli, db: Path):
    assert cli("tenants", "add", "acme").code == 0
    wrong = cli("tenants", "add", "a/b")
    number = cli("tenants", "quota", "default", "--bytes", "many")
    named = cli("events", "ls", "--tenant", "a b")

    assert (wrong.code, number.code, named.code) == (1, 2, 2)
    assert "the first a letter or a digit" in wrong.talk[0]
    assert "whole number or none" in number.talk[0]
    assert "no tenant can have the id 'a b'" in named.talk[0]
