"""What did the sink see? Lost, reordered and repeated deliveries, from the log of the sink."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Seen:
    """Deliveries as the sink answered them, in that order."""

    deliveries: int
    distinct: int
    reordered: int
    first_at: float
    last_at: float
    warm: int = 0
    """So many deliveries came before `first_at`: the rate counts from there on."""

    @property
    def duplicates(self) -> int:
        return self.deliveries - self.distinct

    @property
    def rate(self) -> float:
        return (self.deliveries - self.warm - 1) / max(1e-9, self.last_at - self.first_at)


def read(log: Path, since: int = 0, *, warm: int = 0) -> Seen:
    """Check a log of nginx.py: per key the first answers must be 1, 2, 3 …; *since* skips so many bytes.

    All are checked, but the first *warm* of them do not count for the rate.
    """
    last: dict[bytes, int] = {}
    count = repeated = reordered = 0
    first_at = last_at = 0.0
    with log.open("rb") as lines:
        lines.seek(since)
        for line in lines:
            at, key, seq_text, _ = line.split(b" ", 3)
            seq = int(seq_text)
            before = last.get(key)
            if before is None or seq == before + 1:
                # A log that is read from the middle begins with any seq; from the start it must begin with 1.
                reordered += before is None and not since and seq != 1
                last[key] = seq
            elif seq <= before:
                repeated += 1
            else:
                reordered += 1
                last[key] = seq
            if count == warm:
                first_at = float(at)
            last_at = float(at)
            count += 1
    return Seen(count, count - repeated, reordered, first_at, last_at, warm)
