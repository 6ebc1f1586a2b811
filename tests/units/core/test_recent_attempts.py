"""What a page is shown of the attempts of late: all failures, and no more successes than anybody could look at."""

from __future__ import annotations

from collections.abc import Sequence

from tests.units.core.kit import T0, endpoint, event

from hooklane.model.attempt import DELIVERED, Retry, Send, Settlement
from hooklane.model.clock import Instant
from hooklane.model.exchange import Answer, Timings
from hooklane.server.recent_attempts import DELIVERED_MAX, EVERY_S, KEPT_OF_BATCH, RecentAttempts, Told
from hooklane.telemetry.deliveries import Recorded


class Listened:
    """Recent attempts with a clock that we set, and what each batch has told, by lane."""

    def __init__(self) -> None:
        self.now = 100.0
        self.batches: list[list[int]] = []
        self.recent = RecentAttempts(self._note, lambda: self.now)

    def _note(self, told: Sequence[Told]) -> None:
        self.batches.append([int(view["key"]) for _, view in told])

    def record(self, first: int, many: int, *, failed: Sequence[int] = ()) -> None:
        lanes = range(first, first + many)
        self.recent.listen(Recorded([settled(lane, lane in failed) for lane in lanes]))


def settled(lane: int, is_failed: bool) -> Settlement:
    send = Send(lane, 0, 1, 0, str(lane), 1, 0, 1, event(1), endpoint(), T0)
    outcome = Retry(Instant(T0 + 1_000), "503") if is_failed else DELIVERED
    return Settlement(send, outcome, T0, Answer(503 if is_failed else 200, Timings(1.0)))


def test_of_successes_no_more_are_kept_than_a_page_can_show_however_many_batches_they_came_in() -> None:
    bench = Listened()
    for number in range(20):
        bench.record(number * 10, 10)
        bench.now += EVERY_S / 100

    assert sum(map(len, bench.batches)) == DELIVERED_MAX


def test_after_a_while_there_is_room_for_others_and_it_is_the_newest_who_get_it() -> None:
    bench = Listened()
    bench.record(0, DELIVERED_MAX + 7)
    bench.now += EVERY_S
    bench.record(1_000, DELIVERED_MAX + 7)

    assert bench.batches == [[*range(7, DELIVERED_MAX + 7)], [*range(1_007, 1_000 + DELIVERED_MAX + 7)]]


def test_failures_are_kept_where_there_is_no_room_for_successes_and_all_stay_in_their_order() -> None:
    bench = Listened()
    bench.record(0, DELIVERED_MAX - 2)
    bench.record(100, 10, failed=(101, 104, 109))
    bench.record(200, 10, failed=(203,))

    assert bench.batches[1:] == [[101, 104, 108, 109], [203, 209]]


def test_a_flood_of_failures_is_cut_to_the_newest() -> None:
    bench = Listened()
    bench.record(0, KEPT_OF_BATCH + 5, failed=range(KEPT_OF_BATCH + 5))

    assert bench.batches == [[*range(5, KEPT_OF_BATCH + 5)]]
