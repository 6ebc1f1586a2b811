"""Who did what, when and why: acts of people and policies, each sealed to the one before it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from hooklane.model.clock import Instant

GENESIS = bytes(32)
"""What the very first line is sealed to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Something that a person or a program did; it is recorded in the same commit as what it changed, or not at all."""

    tenant: str
    at: Instant
    actor: str
    action: str
    """A noun and a participle: `dead_letter.skipped`, `endpoint.created`, `job.started` …"""
    subject: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A place in the chain: the number of a line and its seal."""

    n: int
    seal: bytes


@dataclass(frozen=True, slots=True)
class AuditLine:
    """An act on record."""

    n: int
    act: Act
    seal: bytes


def seal_of(previous: bytes, n: int, act: Act) -> bytes:
    """The seal of line *n*: it holds the seal of the line before, so no line can be changed or taken out alone."""
    # A JSON list cannot be read in two ways, whatever the texts in it hold.
    text = json.dumps([n, act.tenant, act.at, act.actor, act.action, act.subject, act.note], separators=(",", ":"))
    return hashlib.sha256(previous + text.encode()).digest()
