"""How is an act on a dead letter put on record?"""

from __future__ import annotations

from hooklane.model.audit import Act
from hooklane.model.clock import Instant


def act_of(tenant: str, letter: str, what: str, note: str, actor: str, now: Instant) -> Act:
    return Act(tenant=tenant, at=now, actor=actor, action=f"dead_letter.{what}", subject=letter, note=note)
