"""What one write takes, and what a write that fails means for each request in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklane.batching.line import Blame, FairLine, Line, Ticket, cut, flat, settle

Written = list[list[int]]


class Away(Exception):
    pass


class Lost(Exception):
    pass


def blame(error: Exception) -> Blame:
    return {Away: Blame.ALL, Lost: Blame.RACE}.get(type(error), Blame.ONE)


def settled(tickets: list[Ticket[int, str]], write: Callable[[list[int]], list[str]]) -> Written:
    """Settle *tickets* by *write*; what was written together."""
    written: Written = []
    steps = settle(tickets, blame)
    try:
        items = next(steps)
        while True:
            written.append(items)
            try:
                results = write(items)
            except Exception as error:
                items = steps.throw(error)
            else:
                items = steps.send(results)
    except StopIteration:
        return written


def tickets(number: int) -> list[Ticket[int, str]]:
    return [Ticket(item) for item in range(number)]


def test_one_write_settles_all_of_a_batch_each_with_its_own_result() -> None:
    batch = tickets(3)

    written = settled(batch, lambda items: [f"row {item}" for item in items])

    assert written == [[0, 1, 2]]
    assert [ticket.value() for ticket in batch] == ["row 0", "row 1", "row 2"]


def test_when_one_is_bad_the_others_do_not_fail_with_it() -> None:
    batch = tickets(3)

    def write(items: list[int]) -> list[str]:
        if 1 in items:
            raise ValueError("1 cannot be written")
        return [f"row {item}" for item in items]

    written = settled(batch, write)

    assert written == [[0, 1, 2], [0], [1], [2]]
    assert [str(ticket.error) if ticket.error else ticket.result for ticket in batch] == [
        "row 0", "1 cannot be written", "row 2",
    ]  # fmt: skip


def test_an_error_that_says_nothing_about_one_is_told_to_all_and_nothing_is_written_again() -> None:
    batch = tickets(3)

    def write(items: list[int]) -> list[str]:
        raise Away

    assert settled(batch, write) == [[0, 1, 2]]
    assert [type(ticket.error) for ticket in batch] == [Away] * 3


def test_a_lost_race_is_tried_once_more_and_not_for_ever() -> None:
    first, second = tickets(2), tickets(2)
    losses = [Lost(), None]

    def once(items: list[int]) -> list[str]:
        if (error := losses.pop(0)) is not None:
            raise error
        return ["ok" for _ in items]

    def ever(items: list[int]) -> list[str]:
        raise Lost

    assert settled(first, once) == [[0, 1]] * 2
    assert [ticket.value() for ticket in first] == ["ok", "ok"]
    assert settled(second, ever) == [[0, 1]] * 2
    with pytest.raises(Lost):
        second[0].value()


@given(st.lists(st.integers(0, 12), max_size=40), st.integers(1, 10))
def test_every_item_is_taken_once_in_order_and_no_batch_is_too_heavy_unless_one_item_is(
    weights: list[int], most: int
) -> None:
    line: Line[int] = Line(most, weigh=lambda item: item)
    for weight in weights:
        line.add(weight)
    batches = []
    while len(line):
        batches.append(line.take())

    assert [item for batch in batches for item in batch] == weights
    assert all(batch for batch in batches)
    assert all(sum(batch) <= most or len([item for item in batch if item]) == 1 for batch in batches)


@given(st.integers(1, 12), st.lists(st.integers(1, 12), max_size=20), st.integers(1, 10))
def test_what_goes_beside_a_first_one_has_room_there(first: int, others: list[int], most: int) -> None:
    line: Line[int] = Line(most, weigh=lambda item: item)
    for weight in others:
        line.add(weight)

    batch = line.take_beside(first)

    assert batch[0] == first
    assert batch[1:] + list(line.items) == others
    assert sum(batch) <= most or batch == [first]


def test_what_was_taken_cannot_be_withdrawn() -> None:
    line: Line[str] = Line(1)
    line.add("a")
    line.add("b")

    assert line.take() == ["a"]
    assert [line.withdraw("a"), line.withdraw("b"), len(line)] == [False, True, 0]


@given(st.lists(st.lists(st.integers(), max_size=4), max_size=8))
def test_results_are_cut_as_the_items_were(items: list[list[int]]) -> None:
    assert cut(flat(items), items) == items


def test_a_group_with_much_to_do_makes_its_own_items_wait_and_no_others():
    line: FairLine[str] = FairLine(4, lambda item: item[0])
    for item in ("a1", "a2", "a3", "a4", "a5", "a6", "b1", "c1"):
        line.add(item)

    assert sorted(line.take()) == ["a1", "a2", "b1", "c1"]
    line.add("b2")
    assert len(line) == 5
    assert sorted(line.take()) == ["a3", "a4", "a5", "b2"]
    assert line.take() == ["a6"]
    assert line.take() == []


@given(st.lists(st.lists(st.integers(0, 4), max_size=30), max_size=6), st.integers(1, 9))
def test_a_fair_line_loses_nothing_keeps_the_order_of_each_group_and_gives_each_its_share(
    rounds: list[list[int]], most: int
):
    line: FairLine[tuple[int, int]] = FairLine(most, lambda item: str(item[0]))
    waiting: dict[int, list[int]] = {}
    number = 0
    for arrivals in [*rounds, *[[]] * 200]:
        for group in arrivals:
            number += 1
            line.add((group, number))
            waiting.setdefault(group, []).append(number)
        owed = {group: len(items) for group, items in waiting.items() if items}
        batch = line.take()
        assert len(batch) == min(most, sum(owed.values()))
        for group in owed:
            mine = [number for of, number in batch if of == group]
            assert mine == waiting[group][: len(mine)], "the oldest first"
            assert len(mine) >= min(owed[group], most // len(owed)), "its share"
            waiting[group] = waiting[group][len(mine) :]
    assert len(line) == 0
