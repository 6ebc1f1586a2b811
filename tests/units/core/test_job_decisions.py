"""Which members of a job are next? Properties of the decision, without any store."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from hooklane.core.job import AGAIN_WINDOW, OUTSTANDING_MAX, JobRun, Pace
from hooklane.core.plan import Release, freeze, warnings
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint, EndpointState
from hooklane.model.lane import DeliveryState
from hooklane.model.plan import JobMember, Member, Op, Progress

ENDPOINT = Endpoint(id="ep_a", url="https://a.example", created_at=Instant(0))


def member(n: int, key: str | None = "k", state: DeliveryState = DeliveryState.DEAD, **fields: object) -> Member:
    about = {
        "event_id": f"e{n}",
        "type": "t",
        "endpoint_id": "ep_a",
        "lane_id": -n,
        "pid": 0,
        "key": key,
        "seq": None,
        "place": n,
        "dead_letter_id": f"dlv_{n}",
    }
    return Member(state=state, **{**about, **fields})  # type: ignore[arg-type]


jobs = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40)


@settings(deadline=None)
@given(jobs, st.sampled_from([DeliveryState.DEAD, DeliveryState.DELIVERED]), st.integers(1, 50), st.data())
def test_members_of_a_key_go_in_order_and_stop_at_the_first_failure(wanted, state, room, data):
    members = [JobMember(n, member(n, key, state)) for n, (key, _) in enumerate(wanted, start=1)]
    fails = {n for n, (_, fail) in enumerate(wanted, start=1) if fail}
    run = JobRun(Op.REPLAY, members)
    released: dict[str, list[int]] = defaultdict(list)
    out: list[int] = []
    outcome: dict[int, Progress] = {}
    window = 1 if state is DeliveryState.DEAD else AGAIN_WINDOW

    while not run.is_over:
        for n in run.take(room):
            released[wanted[n - 1][0]].append(n)
            out.append(n)
        for key in "abc":
            assert sum(wanted[n - 1][0] == key for n in out) <= window
        # Each line lands in its order, as the engine sees to it, but the lines among themselves in any.
        heads = [n for n in out if not any(m < n and wanted[m - 1][0] == wanted[n - 1][0] for m in out)]
        n = data.draw(st.sampled_from(heads))
        out.remove(n)
        outcome[n] = Progress.FAILED if n in fails else Progress.DELIVERED
        held = run.settled(n, outcome[n])
        if outcome[n] is Progress.FAILED:  # those of its line that were given out stand behind it
            behind = [m for m in out if wanted[m - 1][0] == wanted[n - 1][0]]
            for m in behind:
                out.remove(m)
                held += [m, *run.settled(m, Progress.HELD)]
        outcome.update(dict.fromkeys(held, Progress.HELD))

    for key, numbers in released.items():
        mine = [n for n, (other, _) in enumerate(wanted, start=1) if other == key]
        assert numbers == mine[: len(numbers)], "in order, none left out"
    for key in "abc":
        mine = [n for n, (other, _) in enumerate(wanted, start=1) if other == key]
        first = next((n for n in mine if n in fails), None)
        for n in mine:
            expected = Progress.DELIVERED if first is None or n < first else Progress.HELD
            assert outcome[n] == (Progress.FAILED if n == first else expected)
    assert sum(run.counts.values()) == len(wanted)


def test_a_key_that_stops_while_it_waits_for_its_turn_is_passed_over():
    rows = [JobMember(n, member(n, key, DeliveryState.DELIVERED)) for n, key in enumerate("aab", start=1)]
    run = JobRun(Op.REPLAY, rows)
    assert run.take(2) == [1, 3], "one of each key, and the first stands in line again"

    assert run.settled(1, Progress.FAILED) == [2]

    assert run.take(2) == []


@settings(deadline=None)
@given(jobs, st.data())
def test_a_job_is_taken_up_from_its_rows_where_it_was_left(wanted, data):
    words = st.sampled_from([Progress.PLANNED, Progress.RELEASED, Progress.DELIVERED, Progress.FAILED])
    rows = [JobMember(n, member(n, key), data.draw(words)) for n, (key, _) in enumerate(wanted, start=1)]
    run = JobRun(Op.REPLAY, rows)
    stopped = {one.member.key for one in rows if one.progress is Progress.FAILED}

    held = run.begin()

    assert set(held) == {one.n for one in rows if one.progress is Progress.PLANNED and one.member.key in stopped}
    assert not any(rows[n - 1].member.key in stopped for n in run.take(100))
    assert run.outstanding <= len(rows)


def test_no_more_than_a_bounded_part_of_a_job_is_on_its_way():
    run = JobRun(Op.REPLAY, [JobMember(n, member(n, f"k{n}")) for n in range(1, 10_001)])

    assert len(run.take(10**9)) == OUTSTANDING_MAX
    assert run.take(10**9) == []


@settings(deadline=None)
@given(st.floats(0.5, 5_000), st.lists(st.integers(0, 2_000), min_size=1, max_size=50))
def test_a_pace_never_gives_more_than_its_rate_and_a_short_burst(rate, waits):
    pace = Pace(rate, 0)
    now, used = 0, 0
    for wait_ms in waits:
        now += wait_ms
        room = pace.room(Instant(now))
        pace.used(room)
        used += room
        assert used <= rate * now / 1000 + max(1.0, rate / 4) + 1


@settings(deadline=None)
@given(st.floats(0.1, 4) | st.integers(1, 4), st.integers(60_000, 10**12))
def test_a_pace_lets_one_go_at_last_whatever_the_rate_and_the_time(rate, now):
    pace = Pace(rate, now)

    assert pace.room(Instant(now + 20_000)) >= 1


@settings(deadline=None)
@given(st.lists(st.sampled_from(list(DeliveryState)), max_size=20), st.sampled_from(list(Op)), st.randoms())
def test_a_plan_takes_what_it_can_and_names_the_rest(states, op, random):
    found = [member(n, "k", state) for n, state in enumerate(states, start=1)]
    random.shuffle(found)

    frozen = freeze(op, found, {"ep_a": ENDPOINT}, ["e1", "nothing"])

    may = {DeliveryState.DEAD}
    if op is Op.REPLAY:
        may |= {DeliveryState.DELIVERED, DeliveryState.SKIPPED}
    assert [one.place for one in frozen.members] == [n for n, state in enumerate(states, start=1) if state in may]
    unknown = 1 if states else 2
    assert len(frozen.members) + len(frozen.refused) == len(states) + unknown
    assert frozen.digest == freeze(op, found[::-1], {"ep_a": ENDPOINT}).digest, "a set, not a list"
    if frozen.members:
        assert frozen.digest != freeze(op, frozen.members[1:], {"ep_a": ENDPOINT}).digest


def test_a_deleted_endpoint_takes_back_its_dead_but_nothing_new():
    draining = Endpoint(id="ep_a", url="https://a.example", created_at=Instant(0), state=EndpointState.DRAINING)
    found = [member(1), member(2, state=DeliveryState.DELIVERED), member(3, state=DeliveryState.SKIPPED)]

    frozen = freeze(Op.REPLAY, found, {"ep_a": draining})

    assert [one.event_id for one in frozen.members] == ["e1"]
    assert {name for name, _ in freeze(Op.REPLAY, found, {}).refused} == {"dlv_1", "dlv_2", "dlv_3"}


def test_the_receiver_is_said_to_see_the_jump():
    release = Release("ep_a", "order:1017", skipped=7, acked=6, gives_up=None, released=[], more=2)

    assert release.sees == "seq 6 → 8"


def test_a_person_is_warned_before_what_cannot_be_undone():
    told = warnings(Op.SKIP, [member(1, seq=7)], {"ep_a": ENDPOINT})

    assert len(told) == 1
    assert "cannot be undone" in told[0]
    again = warnings(Op.REPLAY, [member(1, state=DeliveryState.DELIVERED)], {"ep_a": ENDPOINT})
    assert "same id and seq" in again[0]
