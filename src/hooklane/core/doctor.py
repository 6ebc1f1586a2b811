"""Is it as it should be? What `hooklane doctor` makes of what it was told; it looks at nothing itself."""

from __future__ import annotations

from dataclasses import dataclass

from hooklane.core.judge import RetryPolicy
from hooklane.model.size import size_text

SQLITE_SAFE = (3, 51, 3)
"""Older ones have a bug in the write-ahead log where several processes write at the same moment."""
SKEW_MS_LOOK = 1_000
SKEW_MS_WRONG = 30_000
LOG_BYTES_LOOK = 512 * 2**20
DAY_MS = 86_400_000
IDEMPOTENT_MS = 7 * DAY_MS
"""For so long a publish may be repeated: what it was must be kept."""
CERTIFICATE_DAYS_WRONG = 7
CERTIFICATE_DAYS_LOOK = 21


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: `ok`, worth a `look`, or `wrong`; *advice* says what to do, *fix* what `--fix` can do about it."""

    name: str
    state: str
    detail: str
    advice: str = ""
    fix: str = ""


def versions(python: str, hooklane: str, sqlite: tuple[int, ...]) -> Finding:
    detail = f"Python {python}, hooklane {hooklane}, SQLite {_dotted(sqlite)}"
    if sqlite < SQLITE_SAFE:
        advice = f"below {_dotted(SQLITE_SAFE)} let only one process write a file"
        return Finding("versions", "look", detail, advice)
    return Finding("versions", "ok", detail)


def schema(found: int, wanted: int) -> Finding:
    detail = f"{found}/{wanted}"
    if found < wanted:
        return Finding("schema", "wrong", f"{detail}: behind", "run `hooklane migrate up`", "migrate")
    if found > wanted:
        return Finding("schema", "wrong", f"{detail}: newer than this hooklane", "upgrade hooklane")
    return Finding("schema", "ok", detail)


def sqlite_file(journal_mode: str, problem: str | None, log_bytes: int) -> Finding:
    if problem is not None:
        return Finding("file", "wrong", f"it is damaged: {problem}", "restore a backup, or try `sqlite3 FILE .recover`")
    if journal_mode != "wal":
        advice = "readers and the writer wait for each other"
        return Finding("file", "wrong", f"journal mode is {journal_mode}, not wal", advice, "wal")
    if log_bytes > LOG_BYTES_LOOK:
        advice = "a reader that never ends keeps it from being folded: look for a long backup or an open shell"
        return Finding("file", "look", f"its write-ahead log has {size_text(log_bytes)}", advice)
    return Finding("file", "ok", "journal mode wal")


def clock(skew_ms: float) -> Finding:
    skew = abs(skew_ms)
    told = f"skew {skew:.0f} ms" if skew < 10_000 else f"skew {skew / 1000:.0f} s"
    if skew >= SKEW_MS_LOOK:
        state = "wrong" if skew >= SKEW_MS_WRONG else "look"
        return Finding("clock", state, f"{told} between this host and the database", "run NTP on both")
    return Finding("clock", "ok", told)


def page_files(many: int, missing: list[str]) -> Finding:
    if missing:
        return Finding("page", "wrong", f"UI files are missing: {', '.join(missing)}", "install hooklane again")
    return Finding("page", "ok", f"UI files present ({many})")


def free_disk(free: int, least: int) -> Finding:
    if free < least:
        return Finding(
            "disk", "wrong", f"{size_text(free)} free, below disk_free_min {size_text(least)}: publishes are refused"
        )
    if free < 4 * least:
        return Finding("disk", "look", f"{size_text(free)} free; below {size_text(least)} publishes are refused")
    return Finding("disk", "ok", f"{size_text(free)} free")


def permissions(path: str, mode: int, private: int) -> Finding:
    """*private* is the mode that it should have."""
    if mode != private:
        detail = f"{path} can be read by other users ({mode:04o})"
        return Finding("permissions", "wrong", detail, f"chmod {private:o} {path}", "chmod")
    return Finding("permissions", "ok", f"{path} {mode:04o}")


def retry_window_ms(attempts_max: int, backoff_ms: int, backoff_cap_ms: int) -> int:
    """How long a delivery is tried at most: all waits with the most of chance."""
    policy = RetryPolicy(attempts_max=attempts_max, backoff_ms=backoff_ms, backoff_cap_ms=backoff_cap_ms)
    return sum(policy.delay_ms(attempt, 0.999) for attempt in range(1, attempts_max))


def retention(events_ms: int, attempts_ms: int, window_ms: int) -> Finding:
    """*window_ms*: the longest that a delivery to one of the endpoints may take."""
    if events_ms < IDEMPOTENT_MS:
        detail = f"events are kept {_days(events_ms)} < 7 d in which a publish may be repeated"
        return Finding("retention", "look", detail, 'retention = "7d"')
    if attempts_ms < window_ms:
        detail = f"attempts are kept {_days(attempts_ms)} < retry window {_days(window_ms)}"
        whole = f"{-(-window_ms // DAY_MS)}d"
        return Finding("retention", "look", detail, f'retention_attempts = "{whole}"')
    return Finding("retention", "ok", f"events {_days(events_ms)}, longest retry window {_days(window_ms)}")


def dedup_retention(source: str, kept_ms: int, window_ms: int) -> Finding:
    """A receiver must know an event for as long as its sender may send it again."""
    name = f"source {source}"
    if kept_ms < window_ms:
        detail = f"dedup retention {_days(kept_ms)} < sender retry window {_days(window_ms)}"
        return Finding(name, "look", detail, f"keep at least {-(-window_ms // DAY_MS)} d")
    return Finding(name, "ok", f"dedup retention {_days(kept_ms)}, sender retry window {_days(window_ms)}")


def certificate(endpoint: str, days_left: float | None, problem: str | None = None) -> Finding:
    name = f"endpoint {endpoint}"
    if problem is not None:
        return Finding(name, "wrong", f"TLS: {problem}")
    assert days_left is not None
    if days_left < 0:
        return Finding(name, "wrong", f"TLS certificate expired {-days_left:.0f} d ago")
    state = "wrong" if days_left < CERTIFICATE_DAYS_WRONG else "look" if days_left < CERTIFICATE_DAYS_LOOK else "ok"
    return Finding(name, state, f"TLS certificate expires in {days_left:.0f} d")


def standby(*, is_standby: bool, synchronous_commit: str, standby_names: str, standbys: int) -> Finding:
    if is_standby:
        return Finding("standby", "wrong", "this server is a standby and takes no writes", "name the primary in --db")
    if synchronous_commit in ("off", "local") and (standby_names or synchronous_commit == "off"):
        detail = f"synchronous_commit is {synchronous_commit}: your own transaction (tx=) may be lost after its commit"
        return Finding("standby", "look", detail, "set synchronous_commit = on; hooklane's own commits use it anyway")
    if standbys and not standby_names:
        detail = f"{standbys} standby{'s' if standbys > 1 else ''}, none synchronous"
        return Finding(
            "standby",
            "look",
            f"{detail}: after a failover, events whose publish returned success may be missing",
            "set synchronous_standby_names",
        )
    return Finding("standby", "ok", f"synchronous: {standby_names}" if standby_names else "none; commits are on disk")


def _days(ms: int) -> str:
    days = ms / DAY_MS
    return f"{days:.0f} d" if days >= 1 else f"{ms / 3_600_000:.0f} h"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
