"""What is certain about a request once it was accepted?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from hooklane.core.verify.scheme import Scheme
from hooklane.model.clock import Instant
from hooklane.model.value import value


@value(frozen=True, slots=True)
class Proof:
    """Which secret signed (by its index) and what was signed besides the body."""

    scheme: Scheme
    secret: int
    named: Mapping[str, str] = field(default_factory=dict)
    stamp: Instant | None = None
