"""Is this Redis fit to remember what was applied? What an operator should mend, in words."""

from __future__ import annotations

from typing import Any

from hooklane.errors import StoreError
from hooklane.store.inbox import Flow
from hooklane.store.redis.session import Command

VERSION_MIN = (6, 2)


def examine() -> Flow[list[str]]:
    """Warnings about the server that answers; none when all is well."""
    server = _info((yield Command(("INFO", "server"))))
    memory = _info((yield Command(("INFO", "memory"))))
    persistence = _info((yield Command(("INFO", "persistence"))))
    replication = _info((yield Command(("INFO", "replication"))))
    warnings: list[str] = []
    version = server.get("redis_version", "0")
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < VERSION_MIN:
        warnings.append(f"it is version {version}: 6.2 or later is needed")
    policy = memory.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        warnings.append(
            f"maxmemory-policy is {policy}: when memory is short it forgets which events were applied, and they are"
            " applied again; set it to noeviction"
        )
    if persistence.get("aof_enabled") != "1":
        snapshots = yield from _snapshots()
        if snapshots == "":
            warnings.append("neither appendonly nor save is on: a restart forgets everything; set appendonly yes")
        else:
            how = "snapshots only" if snapshots else "no append-only file"
            warnings.append(f"appendonly is off ({how}): a crash forgets the last minutes; set appendonly yes")
    else:
        fsync = yield from _setting("appendfsync")
        if fsync == "no":
            warnings.append("appendfsync is no: a power cut forgets what the system had not written; set everysec")
    if replication.get("role") == "slave":
        warnings.append("it is a replica: claims need the primary")
    return warnings


def _snapshots() -> Flow[str | None]:
    return (yield from _setting("save"))


def _setting(name: str) -> Flow[str | None]:
    """A setting, or None where the server does not tell (managed ones forbid CONFIG)."""
    try:
        answer = yield Command(("CONFIG", "GET", name))
    except StoreError:
        return None
    if isinstance(answer, dict):
        answer = [part for pair in answer.items() for part in pair]
    return _text(answer[1]) if len(answer) > 1 else None


def _info(answer: Any) -> dict[str, str]:
    if isinstance(answer, dict):
        return {_text(name): _text(value) for name, value in answer.items()}
    lines = (line.split(":", 1) for line in _text(answer).splitlines() if ":" in line)
    return {name: value.strip() for name, value in lines}


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
