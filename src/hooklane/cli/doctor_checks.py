"""What `hooklane doctor` looks at on this host, in the database and at the endpoints; core/doctor.py judges it."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sqlite3
import ssl
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from hooklane import __version__
from hooklane.cli.client import Caller
from hooklane.cli.schema import bring_up_to_date
from hooklane.cli.schema import versions as schema_versions
from hooklane.cli.times import since
from hooklane.config import Settings
from hooklane.core import doctor
from hooklane.core.doctor import Finding
from hooklane.errors import HooklaneError, StoreRefused, needing
from hooklane.model.database_url import shown
from hooklane.model.size import counted, size_text
from hooklane.sender.egress import EgressGuard, Refusal, UrlNotAllowed
from hooklane.sender.transport.tls import default_context, own_context
from hooklane.store.sqlite import examine as sqlite_file
from hooklane.store.sqlite.database import path_of
from hooklane.store.sqlite.privacy import private_mode

HANDSHAKE_S = 5.0
ENDPOINTS_MAX = 200
AT_ONCE = 16
UI_FILES = ("index.html", "main.js", "app.css", "logo.svg")
DAY_S = 86_400


def versions() -> Finding:
    return doctor.versions(platform.python_version(), __version__, sqlite3.sqlite_version_info)


def page() -> Finding:
    found = {entry.name for entry in (resources.files("hooklane.server") / "ui").iterdir()}
    return doctor.page_files(len(found), [name for name in UI_FILES if name not in found])


def database(settings: Settings, *, quick: bool) -> Iterator[Finding]:
    """The database of *settings*, looked at without opening it as a server does, which would migrate it."""
    if not settings.db.startswith("sqlite:"):
        with needing("postgres"):
            from hooklane.store.postgres.examine import examine

        facts = asyncio.run(examine(settings.db))
        yield doctor.standby(
            is_standby=facts.is_standby,
            synchronous_commit=facts.synchronous_commit,
            standby_names=facts.standby_names,
            standbys=facts.standbys,
        )
        yield doctor.clock(facts.skew_ms)
        yield doctor.schema(*schema_versions(settings.db))
        return
    path = path_of(settings.db)
    if not Path(path).exists():
        raise StoreRefused(f"there is no database {shown(settings.db)}: check the path; `hooklane serve` creates one")
    yield _permissions(Path(path))
    found = sqlite_file.examine(path, thorough=not quick)
    yield doctor.sqlite_file(found.journal_mode, found.problem, found.log_bytes)
    yield doctor.schema(*schema_versions(settings.db))
    yield doctor.free_disk(shutil.disk_usage(Path(path).absolute().parent).free, settings.disk_free_min)


def _permissions(path: Path) -> Finding:
    mode = stat.S_IMODE(path.stat().st_mode)
    return doctor.permissions(str(path), mode, private_mode(mode))


def secret_files() -> Iterator[Finding]:
    """Files that hold secrets: those that the environment names, and the settings where a key is in them."""
    named = [value for name, value in os.environ.items() if name.startswith("HOOKLANE_") and name.endswith("_FILE")]
    written = Path(os.environ.get("HOOKLANE_CONFIG", "hooklane.toml"))
    if written.exists() and "api_key" in written.read_text("utf-8", "replace"):
        named.append(str(written))
    for path in map(Path, named):
        if path.exists():
            mode = stat.S_IMODE(path.stat().st_mode)
            yield doctor.permissions(str(path), mode, mode & ~0o007)


# What --fix may do: what it did, and how the check stands afterwards.


def migrate(settings: Settings) -> tuple[str, Finding]:
    before, _ = schema_versions(settings.db)
    bring_up_to_date(settings)
    found, wanted = schema_versions(settings.db)
    return f"migrated the schema from {before} to {found}", doctor.schema(found, wanted)


def set_wal(settings: Settings) -> tuple[str, Finding]:
    path = path_of(settings.db)
    sqlite_file.set_wal(path)
    found = sqlite_file.examine(path, thorough=False)
    now = doctor.sqlite_file(found.journal_mode, found.problem, found.log_bytes)
    return f"set the journal mode of {path} to wal", now


def make_private(settings: Settings) -> tuple[str, Finding]:
    path = Path(path_of(settings.db))
    mode = private_mode(stat.S_IMODE(path.stat().st_mode))
    path.chmod(mode)
    return f"chmod {mode:o} {path}", _permissions(path)


MENDS = {"migrate": migrate, "wal": set_wal, "chmod": make_private}
"""By the `fix` of a finding."""


# Endpoints


def retention(settings: Settings, endpoints: Sequence[Mapping[str, Any]]) -> Finding:
    """Of this host's settings: a server elsewhere may have others."""
    windows = [
        doctor.retry_window_ms(one["attempts_max"], one["backoff_ms"], one["backoff_cap_ms"]) for one in endpoints
    ]
    return doctor.retention(settings.retention, settings.retention_attempts, max(windows, default=0))


def certificates(settings: Settings, endpoints: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """How long the certificates of the endpoints still hold, asked of each with one handshake."""
    secure = [one for one in endpoints if one["url"].startswith("https:")][:ENDPOINTS_MAX]
    return asyncio.run(_certificates(EgressGuard(allow=settings.egress_allow), secure)) if secure else []


async def _certificates(guard: EgressGuard, endpoints: Sequence[Mapping[str, Any]]) -> list[Finding]:
    turns = asyncio.Semaphore(AT_ONCE)

    async def ask(one: Mapping[str, Any]) -> Finding:
        async with turns:
            return await _certificate(guard, one)

    return await asyncio.gather(*(ask(one) for one in endpoints))


async def _certificate(guard: EgressGuard, one: Mapping[str, Any]) -> Finding:
    name = one["name"] or one["id"]
    try:
        destination = guard.check(one["url"])
        addresses = await guard.vet(destination)
        if isinstance(addresses, Refusal):
            return doctor.certificate(name, None, addresses.detail)
        context = own_context(one["ca_pem"]) if one.get("ca_pem") else default_context(None)
        async with asyncio.timeout(HANDSHAKE_S):
            _, writer = await asyncio.open_connection(
                str(addresses[0]), destination.port, ssl=context, server_hostname=destination.host
            )
        until = ssl.cert_time_to_seconds(writer.get_extra_info("peercert")["notAfter"])
        writer.close()
        return doctor.certificate(name, (until - time.time()) / DAY_S)
    except UrlNotAllowed as error:
        return doctor.certificate(name, None, str(error))
    except TimeoutError:
        return doctor.certificate(name, None, f"no answer within {HANDSHAKE_S:g} s")
    except ssl.SSLCertVerificationError as error:
        return doctor.certificate(name, None, error.verify_message)
    except OSError as error:
        return doctor.certificate(name, None, error.strerror or str(error))


# The API


def api(caller: Caller, settings: Settings, *, quick: bool) -> Iterator[Finding]:
    """What the server, or the store itself, says about itself."""
    endpoints = caller.get("/api/v1/endpoints")["items"]
    yield retention(settings, endpoints)
    if not quick:
        yield from _ledger(caller)
        yield from certificates(settings, endpoints)
    audit = caller.get("/api/v1/audit/verify")
    if audit["whole"]:
        yield Finding("audit", "ok", f"{counted(audit['lines'], 'line')}, last {audit['last'] or 'none'}")
    else:
        yield Finding("audit", "wrong", audit["broken"]["why"])
    yield _seals(caller)
    # The same figure a week later says whether retention keeps up.
    yield Finding("store", "ok", size_text(caller.get("/api/v1/overview")["store_bytes"]))
    yield _waiting(caller)


def _ledger(caller: Caller) -> Iterator[Finding]:
    """accepted = delivered + queued + retrying + dead + skipped + cancelled, counted from the rows."""
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
    blocked = caller.page("/api/v1/lanes", {"state": "blocked", "limit": 200})
    if not blocked["items"]:
        return Finding("lanes", "ok", "no key is blocked")
    many = len(blocked["items"])
    keys = f"{many}+ keys are" if blocked["next"] else f"{counted(many, 'key')} {'is' if many == 1 else 'are'}"
    oldest = min((one["since"] for one in blocked["items"] if one.get("since")), default=None)
    for_ = f", the oldest for {since(oldest)}" if oldest else ""
    return Finding("lanes", "look", f"{keys} blocked by a dead letter{for_}", "see hooklane dlq ls")


# Inbox


def inbox(store: str | None, where: str | None) -> Iterator[Finding]:
    """The store of an inbox, and with *where* the inbox itself: its sources and how long they remember."""
    from hooklane.cli.inbox import imported, opened_at
    from hooklane.receiver.advice import advise

    if where is not None:
        opened = imported(where)
    else:
        assert store is not None
        opened = opened_at(store)
    try:
        can = opened.store.capabilities
        problems = opened.examine()
        yield from (Finding("inbox", "wrong", f"{can.name}: {text}") for text in problems)
        if not problems:
            yield Finding("inbox", "ok", can.name)
        for source in opened.sources.values():
            window = source.profile.budget.window_ms
            if window is not None:
                yield doctor.dedup_retention(source.name, source.rules.retention_ms, window)
        yield from (Finding("inbox", "look", one.text, one.hint) for one in advise(opened))
    except HooklaneError as error:
        yield Finding("inbox", "wrong", str(error))
    finally:
        opened.close()
