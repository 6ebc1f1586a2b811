"""`hooklane doctor`: is everything as it should be? Each line is a check; what is wrong ends with code 7."""

from __future__ import annotations

import platform
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import typer

from hooklane import __version__
from hooklane.cli.client import Caller, calling
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.options import Db, Json, Server
from hooklane.cli.output import counted, plain, show
from hooklane.model.size import size_text

SQLITE_SAFE = (3, 51, 3)
"""Older ones have a bug in the write-ahead log where several processes write at the same moment."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: fine, worth a look, or wrong."""

    name: str
    state: str
    detail: str


def add_to(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def doctor(server: Server = None, db: Db = None, as_json: Json = False) -> None:
    """Check versions, the ledger of every endpoint, the audit log and what waits."""
    with calling(server, db) as caller:
        found = list(findings(caller))
    value = {"healthy": all(one.state != "wrong" for one in found), "checks": [_shown(one) for one in found]}
    marks = {"ok": "ok     ", "look": "look   ", "wrong": "WRONG  "}
    show(value, as_json, lambda: [f"{marks[one.state]}{one.name}: {plain(one.detail)}" for one in found])
    if not value["healthy"]:
        many = sum(one.state == "wrong" for one in found)
        raise CallFailed(f"{counted(many, 'check')} failed, marked WRONG", Exit.UNHEALTHY)


def _shown(one: Finding) -> dict[str, str]:
    return {"name": one.name, "state": one.state, "detail": one.detail}


def findings(caller: Caller) -> Iterator[Finding]:
    yield _versions()
    yield from _ledger(caller)
    yield _audit(caller)
    yield _seals(caller)
    yield _room(caller)
    yield _waiting(caller)


def _versions() -> Finding:
    detail = f"Python {platform.python_version()}, hooklane {__version__}, SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < SQLITE_SAFE:
        wanted = ".".join(map(str, SQLITE_SAFE))
        return Finding("versions", "look", f"{detail}; below {wanted} let only one process write a file")
    return Finding("versions", "ok", detail)


def _ledger(caller: Caller) -> Iterator[Finding]:
    """accepted = delivered + queued + retrying + dead + skipped + cancelled, counted from the rows."""
    lines = caller.get("/api/v1/ledger")["items"]
    for line in lines:
        if line["balanced"]:
            continue
        counts = " + ".join(f"{many} {state}" for state, many in line["counts"].items() if many)
        faults = "; ".join(line["faults"]) or "the sums differ"
        yield Finding("ledger", "wrong", f"{line['endpoint']}: accepted {line['accepted']}, found {counts}: {faults}")
    accepted = sum(line["accepted"] for line in lines)
    yield Finding(
        "ledger", "ok", f"{counted(len(lines), 'endpoint')}, {counted(accepted, 'delivery', 'deliveries')} accepted"
    )


def _audit(caller: Caller) -> Finding:
    found = caller.get("/api/v1/audit/verify")
    if found["whole"]:
        return Finding("audit", "ok", f"{counted(found['lines'], 'line')}, last {found['last'] or 'none'}")
    return Finding("audit", "wrong", found["broken"]["why"])


def _seals(caller: Caller) -> Finding:
    """Whether a thief of the database would have the secrets too."""
    found = caller.get("/api/v1/secrets")
    if found["key"] is None:
        return Finding("secrets", "look", "kept as plain text: set HOOKLANE_SEAL_KEY, then run hooklane secrets rotate")
    if left := found["plain"] + sum(many for id, many in found["endpoints"].items() if id != found["key"]):
        return Finding(
            "secrets", "look", f"{counted(left, 'endpoint')} not sealed with the newest key: hooklane secrets rotate"
        )
    return Finding("secrets", "ok", f"sealed with {found['key']}")


def _room(caller: Caller) -> Finding:
    """How large the store is: the same figure a week later says whether retention keeps up."""
    size = caller.get("/api/v1/overview")["store_bytes"]
    return Finding("store", "ok", size_text(size))


def _waiting(caller: Caller) -> Finding:
    """The blocked lane that has waited longest tells what to do first."""
    blocked = caller.page("/api/v1/lanes", {"state": "blocked", "limit": 200})
    if not blocked["items"]:
        return Finding("lanes", "ok", "no key is blocked")
    many = len(blocked["items"])
    keys = f"{many}+ keys are" if blocked["next"] else f"{counted(many, 'key')} {'is' if many == 1 else 'are'}"
    oldest = min((one["since"] for one in blocked["items"] if one.get("since")), default=None)
    since = f", the oldest for {_age(oldest)}" if oldest else ""
    return Finding("lanes", "look", f"{keys} blocked by a dead letter{since}: see hooklane dlq ls")


def _age(at: str) -> str:
    minutes = int((datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds() // 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
