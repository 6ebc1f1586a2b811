"""The audit log: a line that was edited, removed or added is named."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from hooklane.core.audit import Broken, ChainCheck
from hooklane.model.audit import GENESIS, Act, AuditLine, Link, seal_of
from hooklane.model.clock import Instant

texts = st.text(max_size=20)
acts = st.builds(
    Act,
    tenant=texts,
    at=st.integers(0, 2**50).map(Instant),
    actor=texts,
    action=texts,
    subject=texts,
    note=texts,
)


def chained(found: list[Act]) -> list[AuditLine]:
    lines, last = [], Link(0, GENESIS)
    for act in found:
        line = AuditLine(last.n + 1, act, seal_of(last.seal, last.n + 1, act))
        lines.append(line)
        last = Link(line.n, line.seal)
    return lines


def verdict(lines: list[AuditLine], head: AuditLine, anchor: Link | None = None) -> Broken | None:
    check = ChainCheck(anchor)
    check.take(lines)
    return check.finish(Link(head.n, head.seal))


@settings(deadline=None)
@given(st.lists(acts, min_size=1, max_size=8))
def test_an_untouched_log_is_whole(found):
    lines = chained(found)

    assert verdict(lines, lines[-1]) is None


@settings(deadline=None)
@given(st.lists(acts, min_size=1, max_size=8), st.data())
def test_an_edited_line_is_named(found, data):
    lines = chained(found)
    at = data.draw(st.integers(0, len(lines) - 1))
    field = data.draw(st.sampled_from(["tenant", "actor", "action", "subject", "note"]))
    act = lines[at].act
    edited = replace(act, **{field: getattr(act, field) + "x"})
    lines[at] = replace(lines[at], act=edited)

    broken = verdict(lines, lines[-1])

    assert broken is not None
    assert broken.n == at + 1


@settings(deadline=None)
@given(st.lists(acts, min_size=1, max_size=8), st.data())
def test_a_removed_line_is_named_also_the_last(found, data):
    lines = chained(found)
    at = data.draw(st.integers(0, len(lines) - 1))
    head = lines[-1]

    broken = verdict(lines[:at] + lines[at + 1 :], head)

    assert broken is not None
    assert broken.n == at + 1


@settings(deadline=None)
@given(st.lists(acts, min_size=2, max_size=8), st.data())
def test_the_chain_goes_on_from_where_retention_cut_it(found, data):
    lines = chained(found)
    cut = data.draw(st.integers(1, len(lines) - 1))
    anchor = Link(lines[cut - 1].n, lines[cut - 1].seal)

    assert verdict(lines[cut:], lines[-1], anchor) is None
    broken = verdict(lines[cut:], lines[-1])
    assert broken is not None
    assert broken.n == 1


def act(note: str) -> Act:
    return Act(tenant="t", at=Instant(1), actor="me", action="a", subject="s", note=note)


def test_a_seal_that_was_noted_down_elsewhere_uncovers_a_log_that_was_written_anew():
    noted = chained([act("true")])[-1]
    forged = chained([act("false"), act("later")])
    check = ChainCheck(None, Link(noted.n, noted.seal))

    check.take(forged)

    assert check.finish(Link(forged[-1].n, forged[-1].seal)) == Broken(
        1, "line 1 is not the one whose seal was noted down"
    )


def test_a_log_that_is_shorter_than_what_was_noted_down_is_broken():
    lines = chained([act("one"), act("two")])
    check = ChainCheck(None, Link(2, lines[1].seal))

    check.take(lines[:1])

    broken = check.finish(Link(1, lines[0].seal))
    assert broken is not None
    assert broken.n == 2
