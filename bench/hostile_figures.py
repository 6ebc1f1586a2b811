"""What did a run beside hostile endpoints show? Read from the sink, from the peers and from the attempt log itself."""

from __future__ import annotations

import sqlite3
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.healthy import Arrival
from bench.machine import described

RATIO_MAX, MEMORY_KIB_MAX, LATE_MS_MAX = 1.5, 64.0, 1_000.0


@dataclass(slots=True)
class Round:
    """One slice of load on the healthy endpoints, and who cost what meanwhile."""

    name: str
    due_at: dict[str, float] = field(default_factory=dict)
    publish_ms: list[float] = field(default_factory=list)
    arrival_ms: list[float] = field(default_factory=list)
    took_ms: list[float] = field(default_factory=list)
    cores: dict[str, float] = field(default_factory=dict)
    open_max: int = 0
    requests: int = 0
    rss_kib_max: int = 0


def read_attempts(db: Path) -> tuple[dict[str, float], Counter[str], dict[str, float]]:
    """From the attempt log: what each healthy delivery took, how hostile ones ended, and the longest of each end."""
    conn = sqlite3.connect(f"file:{db}?mode=ro", uri=True)
    rows = conn.execute(
        """
        SELECT e.id, e.type, a.took_ms, a.outcome, coalesce(a.failure, a.status)
        FROM hooklane_attempt a JOIN hooklane_lane_event l ON l.lane_id = a.lane_id AND l.seq = a.seq
        JOIN hooklane_event e ON e.n = l.event_n
        """
    ).fetchall()
    conn.close()
    took: dict[str, float] = {}
    ends: Counter[str] = Counter()
    longest: dict[str, float] = {}
    for event_id, type_, took_ms, outcome, end in rows:
        if type_ == "hostile.event":
            ends[str(end)] += 1
            longest[str(end)] = max(longest.get(str(end), 0.0), took_ms)
        elif outcome == "delivered":
            took[event_id] = took_ms
    return took, ends, longest


def check(arrivals: Sequence[Arrival], rounds: Sequence[Round]) -> None:
    """Every event of the rounds arrived once, and each key in its order."""
    times = Counter(one.event_id for one in arrivals)
    published = {event_id for one in rounds for event_id in one.due_at}
    if lost := published - times.keys():
        raise SystemExit(f"{len(lost)} events never arrived, {min(lost)} among them")
    if twice := [event_id for event_id, many in times.items() if many > 1]:
        raise SystemExit(f"{len(twice)} events arrived twice, {twice[0]} among them")
    last: dict[str, int] = {}
    for one in arrivals:
        if one.seq != last.get(one.key, 0) + 1:
            raise SystemExit(f"{one.key} went from {last.get(one.key, 0)} to {one.seq}")
        last[one.key] = one.seq


def p(values: Sequence[float], part: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * part // 100)]


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that a run has seen."""

    rounds: Sequence[Round]
    hostile: int
    timeout_ms: int
    rss_kib_before: int
    held_s_max: float
    """The longest time that a hostile endpoint was held on to, as it saw itself."""

    def arrival_ratios(self) -> list[float]:
        """By round: p99 from publish to arrival beside hostile endpoints over that without."""
        quiet, hostile = ([one for one in self.rounds if one.name == name] for name in ("quiet", "hostile"))
        return [p(b.arrival_ms, 99) / p(a.arrival_ms, 99) for a, b in zip(quiet, hostile, strict=True)]


def report(run: Found, db: Path) -> bool:
    """Print what was found; whether the goals were reached."""
    took, ends, longest = read_attempts(db)
    for one in run.rounds:
        one.took_ms = [took[event_id] for event_id in one.due_at if event_id in took]
    quiet, hostile = ([one for one in run.rounds if one.name == name] for name in ("quiet", "hostile"))
    print(described())
    print(f"{'ms':34}{'quiet p50':>10}{'p99':>8}{'hostile p50':>13}{'p99':>8}{'p99 ratio':>11}  by round")
    ratios = {}
    for title, of in (
        ("publish due -> arrives at healthy", "arrival_ms"),
        ("publish due -> 202", "publish_ms"),
        ("took_ms of the attempt (log)", "took_ms"),
    ):
        calm, rough = ([value for one in some for value in getattr(one, of)] for some in (quiet, hostile))
        each = [p(getattr(b, of), 99) / p(getattr(a, of), 99) for a, b in zip(quiet, hostile, strict=True)]
        ratios[of] = statistics.median(each)
        print(
            f"{title:34}{p(calm, 50):10.2f}{p(calm, 99):8.2f}{p(rough, 50):13.2f}{p(rough, 99):8.2f}"
            f"{ratios[of]:11.2f}  {', '.join(f'{one:.2f}' for one in each)}"
        )
    grown_kib = max(one.rss_kib_max for one in hostile) - run.rss_kib_before
    memory, open_max = grown_kib / run.hostile, max(one.open_max for one in hostile)
    late_ms = max(run.held_s_max * 1000, *longest.values()) - run.timeout_ms
    cores = {name: max(one.cores[name] for one in hostile) for name in hostile[0].cores}
    print(f"hostile attempts: {', '.join(f'{end} {many}' for end, many in ends.most_common())}")
    print(f"  open at once: {min(one.open_max for one in hostile)}-{open_max}")
    print(f"  the last ended {late_ms:+.0f} ms after its deadline (goal <= +{LATE_MS_MAX:.0f})")
    print(
        f"  memory: {memory:.1f} KiB for each hostile endpoint (goal <= {MEMORY_KIB_MAX:.0f}),"
        f" {grown_kib / open_max:.1f} for each attempt open at once"
    )
    print(f"  cores meanwhile: {', '.join(f'{name} {part:.2f}' for name, part in cores.items())}")
    print(f"p99 of healthy deliveries, median of the rounds: {ratios['arrival_ms']:.2f} x quiet (goal <= {RATIO_MAX})")
    return ratios["arrival_ms"] <= RATIO_MAX and memory <= MEMORY_KIB_MAX and late_ms <= LATE_MS_MAX
