"""Was the audit log touched? The chain of seals tells, and names the first line that does not fit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hooklane.model.audit import GENESIS, AuditLine, Link, seal_of


@dataclass(frozen=True, slots=True)
class Broken:
    """The first line that is not as it was written; *why* says what is wrong with it."""

    n: int
    why: str


@dataclass(slots=True)
class ChainCheck:
    """A check that takes the lines as they are read, oldest first, and stops at the first that does not fit."""

    anchor: Link | None
    """The last line that retention removed: the chain goes on from it."""
    expect: Link | None = None
    """A line whose seal was noted down elsewhere: a person who rewrote the whole log could not rewrite that."""
    broken: Broken | None = None
    lines: int = 0
    _last: Link = field(init=False)

    def __post_init__(self) -> None:
        self._last = self.anchor or Link(0, GENESIS)

    @property
    def last(self) -> Link:
        return self._last

    def take(self, lines: Iterable[AuditLine]) -> None:
        for line in lines:
            if self.broken is not None:
                return
            wanted = self._last.n + 1
            if line.n != wanted:
                self.broken = Broken(wanted, f"line {wanted} is missing; the next one there is {line.n}")
            elif line.seal != seal_of(self._last.seal, line.n, line.act):
                self.broken = Broken(line.n, f"line {line.n} is not as it was written")
            elif self.expect is not None and line.n == self.expect.n and line.seal != self.expect.seal:
                self.broken = Broken(line.n, f"line {line.n} is not the one whose seal was noted down")
            else:
                self._last = Link(line.n, line.seal)
                self.lines += 1

    def finish(self, head: Link | None) -> Broken | None:
        """The verdict, when all lines were taken. *head* is the last line as the store remembers it."""
        if self.broken is not None:
            return self.broken
        last = self._last
        if head is None and last.n > 0:
            self.broken = Broken(last.n, "the record of the last line is missing")
        elif head is not None and head.n > last.n:
            self.broken = Broken(last.n + 1, f"the log ends at line {last.n}, but it had {head.n}")
        elif head is not None and head != last:
            self.broken = Broken(last.n, f"line {last.n} is not the last one that was written")
        elif self.expect is not None and self.expect.n > last.n:
            self.broken = Broken(last.n + 1, f"the log ends at line {last.n}, but {self.expect.n} was noted down")
        return self.broken
