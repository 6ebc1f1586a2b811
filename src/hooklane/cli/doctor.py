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
from hooklane.cli.output import plain, show

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
        raise CallFailed("something is wrong", Exit.UNHEALTHY)


def _shown(one: Finding) -> dict[str, str]:
    return {"name": one.name, "state": one.state, "detail": one.detail}


def findings(caller: Caller) -> Iterator[Finding]:
    yield _versions()
    yield from _ledger(caller)
    yield _audit(caller)
    yield _room(caller)
    yield _waiting(caller)


def _versions() -> Finding:
    detail = f"Python {platform.python_version()}, hooklane {__version__}, SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < SQLITE_SAFE:
        wanted = ".".join(map(str, SQLITE_SAFE))
        return Finding("versions", "look", f"{detail}: before {wanted} let only one process write the file")
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
    yield Finding("ledger", "ok", f"{len(lines)} endpoints, {accepted} deliveries accepted")


def _audit(caller: Caller) -> Finding:
    found = caller.get("/api/v1/audit/verify")
    if found["whole"]:
        return Finding("audit", "ok", f"{found['lines']} lines, last {found['last'] or 'none'}")
    return Finding("audit", "wrong", found["broken"]["why"])


def _room(caller: Caller) -> Finding:
    """How large the store is: the same figure a week later says whether retention keeps up."""
    size = caller.get("/api/v1/overview")["store_bytes"]
    return Finding("store", "ok", f"{size / 1_048_576:.1f} MiB")


def _waiting(caller: Caller) -> Finding:
    """The blocked lane that has waited longest tells what to do first."""
    blocked = caller.get("/api/v1/lanes", {"state": "blocked", "limit": 200})
    if not blocked["items"]:
        return Finding("lanes", "ok", "no key is blocked")
    many = f"{len(blocked['items'])}{'+' if blocked['next'] else ''}"
    oldest = min((one["since"] for one in blocked["items"] if one.get("since")), default=None)
    since = f", the oldest for {_age(oldest)}" if oldest else ""
    return Finding("lanes", "look", f"{many} keys are blocked by a dead letter{since}: see hooklane dlq ls")


def _age(at: str) -> str:
    minutes = int((datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds() // 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
