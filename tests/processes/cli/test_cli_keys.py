"""`hooklane keys`: on a database, on a server, and both at once."""

import re
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from tests.processes.cli.conftest import Ended
from tests.support.pace import scaled_s

Cli = Callable[..., Ended]


def test_a_key_is_made_listed_and_revoked(cli: Cli, db: Path):
    assert cli("tenants", "add", "acme").code == 0
    made = cli("keys", "add", "ci", "--scope", "publish,read", "--json").json
    plain = cli("keys", "add", "nightly", "--scope", "admin", "--for-tenant", "acme")
    listed = cli("keys", "ls")
    asked = cli("keys", "rm", made["id"])
    gone = cli("keys", "rm", made["id"], "--yes")
    again = cli("keys", "rm", made["id"], "--yes")
    audit = cli("audit", "ls", "--json").json["items"]

    assert re.fullmatch(r"hl_\w{38}", made["key"])
    assert re.fullmatch(r"key_\w+  nightly: admin\nhl_\w{38}\n", plain.out)
    assert listed.out.splitlines()[0].split() == ["ID", "NAME", "SCOPES", "TENANT", "EXPIRES", "LAST", "USED"]
    assert listed.out.splitlines()[1].split() == [made["id"], "ci", "publish,read", "(all)", "never", "-"]
    assert "hl_" not in listed.out
    assert (asked.code, "--yes" in asked.err) == (2, True)
    assert (gone.code, again.code) == (0, 3)
    assert [(one["action"], one["actor"]) for one in audit] == [
        ("key.revoked", "cli"),
        ("key.created", "cli"),
        ("key.created", "cli"),
        ("tenant.created", "cli"),
    ]


def test_what_is_no_scope_is_refused(cli: Cli, db: Path):
    ended = cli("keys", "add", "ci", "--scope", "all")

    assert (ended.code, ended.out, len(ended.talk)) == (2, "", 1)


def test_a_key_that_another_process_makes_and_revokes_works_and_ends_in_a_moment(
    cli: Cli, server: str, tmp_path: Path, monkeypatch
):
    database = f"sqlite:///{tmp_path}/served.db"
    made = cli("keys", "add", "ci", "--scope", "read,publish", "--db", database, "--json").json
    monkeypatch.setenv("HOOKLANE_API_KEY", made["key"])

    assert cli("endpoints", "ls").code == 0  # at once: an unknown key is looked up before it is refused
    assert cli("send", "a", "1").code == 0
    assert cli("keys", "ls").code == cli("endpoints", "add", "http://127.0.0.1:9/").code != 0
    assert cli("keys", "rm", made["id"], "--yes", "--db", database).code == 0
    deadline = monotonic() + scaled_s(5)
    while cli("endpoints", "ls").code == 0:
        assert monotonic() < deadline, "the server still takes a key that was revoked beside it"
