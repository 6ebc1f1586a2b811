"""`hooklane doctor`: is everything as it should be? Each line is a check; what is wrong ends with code 7."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hooklane.cli import output
from hooklane.cli.client import Caller, calling
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.options import Db, Server
from hooklane.cli.output import aside, counted, plain, show, sign
from hooklane.cli.times import since

if TYPE_CHECKING:
    from hooklane.config import Settings
    from hooklane.core.doctor import Finding


def doctor(
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave out what takes long: the whole file, the ledger, TLS of endpoints.")
    ] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Mend what can be mended safely, and say what was done.")] = False,
    store: Annotated[
        str | None,
        typer.Option("--store", metavar="URL", help="Check the store of an inbox too: redis://…"),
    ] = None,
    inbox: Annotated[
        str | None, typer.Option("--inbox", metavar="MODULE:INBOX", help="Check your inbox with its sources too.")
    ] = None,
    server: Server = None,
    db: Db = None,
) -> None:
    """Check that everything is as it should be.

    Versions, clock, schema, files, retention, certificates of endpoints, the ledger and the audit log; with --db also
    what only the database's own host can tell. Ends with 7 when a check is wrong.
    """
    found: list[Finding] = []
    fixed: list[str] = []
    for one in _findings(server, db, store, inbox, quick=quick, fix=fix, fixed=fixed):
        found.append(one)
        if not output.as_json:
            _print(one)
    wrong = [one for one in found if one.state == "wrong"]
    value = {"healthy": not wrong, "checks": [asdict(one) for one in found], "fixed": fixed}
    show(value, list)
    for line in fixed:
        aside(f"fixed: {line}")
    if wrong:
        can = sum(bool(one.fix) for one in wrong)
        hint = f"; `hooklane doctor --fix` mends {can} of them" if can and not fix else ""
        raise CallFailed(f"{counted(len(wrong), 'check')} failed{hint}", Exit.UNHEALTHY)


def _print(one: Finding) -> None:
    from hooklane.cli.output import say

    advice = f"   → {plain(one.advice)}" if one.advice else ""
    say(f"{sign(one.state)} {one.name}: {plain(one.detail)}{advice}")


def _findings(
    server: str | None,
    db: str | None,
    store: str | None,
    inbox: str | None,
    *,
    quick: bool,
    fix: bool,
    fixed: list[str],
) -> Iterator[Finding]:
    from hooklane.cli import doctor_checks as checks
    from hooklane.config import load

    yield checks.versions()
    yield checks.page()
    settings, origins = load({"db": db}, os.environ)
    asks_server = server is not None or (db is None and "HOOKLANE_SERVER" in os.environ)
    is_named = any(one.name == "db" and one.origin != "default" for one in origins)
    if not asks_server and is_named:
        is_open = True
        for one in checks.database(settings, quick=quick):
            one = _mended(one, settings, fixed) if fix and one.fix else one
            is_open = is_open and not (one.state == "wrong" and one.name in ("schema", "file", "standby"))
            yield one
        if not is_open:
            return  # to open it would change it, or fail
    yield from checks.secret_files()
    with calling(server, db) as caller:
        yield from _api(caller, settings, quick=quick)
    if store is not None or inbox is not None:
        yield from checks.inbox(store, inbox)


def _mended(one: Finding, settings: Settings, fixed: list[str]) -> Finding:
    from hooklane.cli import doctor_checks as checks

    mend: dict[str, Callable[[Settings], tuple[str, Finding]]] = {
        "migrate": checks.migrate,
        "wal": checks.set_wal,
        "chmod": checks.make_private,
    }
    done, now = mend[one.fix](settings)
    fixed.append(done)
    return now


def _api(caller: Caller, settings: Settings, *, quick: bool) -> Iterator[Finding]:
    """What the server, or the store itself, says about itself."""
    from hooklane.cli import doctor_checks as checks
    from hooklane.core.doctor import Finding

    endpoints = caller.get("/api/v1/endpoints")["items"]
    yield checks.retention(settings, endpoints)
    if not quick:
        yield from _ledger(caller)
        yield from checks.certificates(settings, endpoints)
    audit = caller.get("/api/v1/audit/verify")
    if audit["whole"]:
        yield Finding("audit", "ok", f"{counted(audit['lines'], 'line')}, last {audit['last'] or 'none'}")
    else:
        yield Finding("audit", "wrong", audit["broken"]["why"])
    yield _seals(caller)
    # The same figure a week later says whether retention keeps up.
    from hooklane.model.size import size_text

    yield Finding("store", "ok", size_text(caller.get("/api/v1/overview")["store_bytes"]))
    yield _waiting(caller)


def _ledger(caller: Caller) -> Iterator[Finding]:
    """accepted = delivered + queued + retrying + dead + skipped + cancelled, counted from the rows."""
    from hooklane.core.doctor import Finding

    lines: list[dict[str, Any]] = caller.get("/api/v1/ledger")["items"]
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


def _seals(caller: Caller) -> Finding:
    """Whether a thief of the database would have the secrets too."""
    from hooklane.core.doctor import Finding

    found = caller.get("/api/v1/secrets")
    if found["key"] is None:
        return Finding(
            "secrets", "look", "kept as plain text", "set HOOKLANE_SEAL_KEY, then run hooklane secrets rotate"
        )
    if left := found["plain"] + sum(many for id, many in found["endpoints"].items() if id != found["key"]):
        detail = f"{counted(left, 'endpoint')} not sealed with the newest key"
        return Finding("secrets", "look", detail, "hooklane secrets rotate")
    return Finding("secrets", "ok", f"sealed with {found['key']}")


def _waiting(caller: Caller) -> Finding:
    """The blocked lane that has waited longest tells what to do first."""
    from hooklane.core.doctor import Finding

    blocked = caller.page("/api/v1/lanes", {"state": "blocked", "limit": 200})
    if not blocked["items"]:
        return Finding("lanes", "ok", "no key is blocked")
    many = len(blocked["items"])
    keys = f"{many}+ keys are" if blocked["next"] else f"{counted(many, 'key')} {'is' if many == 1 else 'are'}"
    oldest = min((one["since"] for one in blocked["items"] if one.get("since")), default=None)
    for_ = f", the oldest for {since(oldest)}" if oldest else ""
    return Finding("lanes", "look", f"{keys} blocked by a dead letter{for_}", "see hooklane dlq ls")
