"""What came out: a table to read, JSON to compare, and a picture."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

OUT = Path(__file__).with_name("out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What the sink saw. All of it must be zero."""

    lost: int
    reordered: int
    duplicates: int

    @property
    def is_right(self) -> bool:
        return not (self.lost or self.reordered or self.duplicates)

    def __str__(self) -> str:
        return f"lost {self.lost}, reordered {self.reordered}, unexplained duplicates {self.duplicates}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured thing: *rates* are events per second, one for each round, with the limit H beside each."""

    scenario: str
    variant: str
    rates: Sequence[float]
    limits: Sequence[float] = ()
    cpu_us: dict[str, float] = field(default_factory=dict)
    """Microseconds of CPU per event, by part: gateway, database, sink, load generator."""
    elsewhere: Sequence[float] = ()
    """How many cores others kept busy during each round: figures of a busy machine say little."""
    check: Check | None = None
    notes: dict[str, float | str] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return median(self.rates)

    @property
    def limit(self) -> float | None:
        return median(self.limits) if self.limits else None

    @property
    def ratios(self) -> list[float]:
        return [rate / limit for rate, limit in zip(self.rates, self.limits, strict=True)] if self.limits else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Something to reach, and what was reached."""

    what: str
    wanted: str
    found: str
    is_reached: bool


def median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def table(figures: Sequence[Figure], goals: Sequence[Goal], machine: str, build: str) -> str:
    head = ("scenario", "variant", "events/s (range)", "H", "ratio (range)", "CPU µs/event", "others", "correct")
    rows = [head]
    for one in figures:
        span = f" ({min(one.rates):,.0f}-{max(one.rates):,.0f})" if len(one.rates) > 1 else ""
        ratios = one.ratios
        ratio = f"{median(ratios):.3f} ({min(ratios):.3f}-{max(ratios):.3f})" if ratios else ""
        cpu = " ".join(f"{part} {us:.0f}" for part, us in one.cpu_us.items())
        right = "" if one.check is None else "yes" if one.check.is_right else str(one.check)
        limit = f"{one.limit:,.0f}" if one.limit else ""
        others = f"{median(one.elsewhere):.1f}" if one.elsewhere else ""
        rows.append((one.scenario, one.variant, f"{one.rate:,.0f}{span}", limit, ratio, cpu, others, right))
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [
        f"machine: {machine}; 'others' is how many cores somebody else kept busy meanwhile",
        f"hooklane: {build}",
        "",
    ]
    for number, row in enumerate(rows):
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if number == 0:
            lines.append("  ".join("-" * width for width in widths))
    notes = [
        f"{one.scenario} / {one.variant}: {name} {_said(value)}" for one in figures for name, value in one.notes.items()
    ]
    if notes:
        lines += ["", *notes]
    if goals:
        lines += [
            "",
            *(
                f"{'reached' if one.is_reached else 'MISSED '}  {one.what}: wanted {one.wanted}, found {one.found}"
                for one in goals
            ),
        ]
    checks = [one.check for one in figures if one.check is not None]
    if checks:
        all_in = Check(
            lost=sum(one.lost for one in checks),
            reordered=sum(one.reordered for one in checks),
            duplicates=sum(one.duplicates for one in checks),
        )
        lines += ["", f"correctness over all runs: {all_in}"]
    return "\n".join(lines)


LOSS_MAX = 0.05
QUIET_MAX = 0.3
"""Where others kept more cores busy than this, a figure is not compared: caches were not ours."""


def losses(figures: Sequence[Figure], before: Mapping[str, Any] | None, machine: str, build: str) -> list[str]:
    """What costs more CPU per event than in the report *before*, by more than a twentieth.

    Only of the same machine and the same build, and only where nobody else was at work in either run.
    """
    if before is None or not _is_like(before, machine, build):
        return []
    earlier = {(one["scenario"], one["variant"]): one for one in before["figures"]}
    found = []
    for one in figures:
        other = earlier.get((one.scenario, one.variant))
        if other is None or not (_is_quiet(one.elsewhere) and _is_quiet(other["elsewhere"])):
            continue
        now, then = _own_us(one.cpu_us), _own_us(other["cpu_us"])
        if then and now > then * (1 + LOSS_MAX):
            found.append(f"{one.scenario}, {one.variant}: {now:.0f} µs of CPU an event, {then:.0f} before")
    return found


def _is_like(before: Mapping[str, Any], machine: str, build: str) -> bool:
    return before["hooklane"] == build and _without_load(before["machine"]) == _without_load(machine)


def _own_us(cpu_us: Mapping[str, float]) -> float:
    """Of server and database: what the load generator and the sink cost is not ours."""
    return sum(us for part, us in cpu_us.items() if part not in ("load", "sink"))


def _is_quiet(elsewhere: Sequence[float]) -> bool:
    return not elsewhere or median(elsewhere) <= QUIET_MAX


def _without_load(machine: str) -> str:
    return machine.partition(", load average")[0]


def kept(folder: Path = OUT) -> dict[str, Any] | None:
    """The report that was kept last, if there is one."""
    path = folder / "report.json"
    found: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None
    return found


def _said(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.3f}"


def write(figures: Sequence[Figure], goals: Sequence[Goal], machine: str, build: str, folder: Path = OUT) -> Path:
    """The table, the JSON and the picture, in *folder*; the JSON before it is kept beside it, to compare with."""
    folder.mkdir(exist_ok=True)
    path = folder / "report.json"
    before = kept(folder)
    if path.exists():
        path.replace(folder / "report-before.json")
    earlier = before["figures"] if before is not None and _is_like(before, machine, build) else []
    measured = {(one.scenario, one.variant) for one in figures}
    (folder / "report.txt").write_text(table(figures, goals, machine, build) + "\n")
    report = {
        "machine": machine,
        "hooklane": build,
        # What only a longer run measures stays, to be compared with the next one.
        "figures": [asdict(one) for one in figures]
        + [one for one in earlier if (one["scenario"], one["variant"]) not in measured],
        "goals": [asdict(one) for one in goals],
    }
    path.write_text(json.dumps(report, indent=2) + "\n")
    (folder / "report.svg").write_text(picture(figures))
    return folder / "report.txt"


def picture(figures: Sequence[Figure]) -> str:
    """A bar for each figure on a logarithmic scale, with the limit H as a tick where there is one."""
    bar, gap, left, width = 18, 10, 300, 640
    height = len(figures) * (bar + gap) + 60
    top = max([one.rate for one in figures] + [one.limit or 1 for one in figures] + [10])
    decades = math.ceil(math.log10(top))

    def x(rate: float) -> float:
        return left + width * max(0.0, math.log10(max(1.0, rate))) / decades

    size = f'width="{left + width + 120}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="{left}" y="14" fill="#555555">events/s, logarithmic; red: wrk to nginx in the same minutes</text>',
    ]
    for power in range(decades + 1):
        at = x(10**power)
        parts.append(f'<line x1="{at:.0f}" y1="20" x2="{at:.0f}" y2="{height - 30}" stroke="#dddddd"/>')
        parts.append(f'<text x="{at:.0f}" y="{height - 12}" text-anchor="middle" fill="#555555">{10**power:,}</text>')
    for number, one in enumerate(figures):
        y = 24 + number * (bar + gap)
        colour = "#b0b0b0" if one.variant.startswith("naive") else "#2b6cb0"
        parts.append(
            f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{escape(one.scenario)}, {escape(one.variant)}</text>'
        )
        parts.append(f'<rect x="{left}" y="{y}" width="{x(one.rate) - left:.1f}" height="{bar}" fill="{colour}"/>')
        parts.append(f'<text x="{x(one.rate) + 6:.0f}" y="{y + 13}">{one.rate:,.0f}</text>')
        if one.limit:
            at = x(one.limit)
            parts.append(
                f'<line x1="{at:.0f}" y1="{y - 2}" x2="{at:.0f}" y2="{y + bar + 2}" stroke="#c53030" stroke-width="2"/>'
            )
    parts.append("</svg>")
    return "\n".join(parts) + "\n"
