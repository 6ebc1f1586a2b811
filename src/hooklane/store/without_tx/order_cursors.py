"""The verbs of order, for stores that lease: a track is held, changed in memory, and written by the commit.

A back-end says how a track is held and read; another session that wants it waits, and then is told that it is busy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from hooklane.errors import StoreBusy
from hooklane.model.clock import Instant
from hooklane.model.inbox import Gap, RowId, Track
from hooklane.model.message import Status
from hooklane.store.inbox import Flow
from hooklane.store.without_tx.buffer import Buffer, Pause, State, TrackState, Waiting

POLL_MS_MIN, POLL_MS_MAX = 2, 40


class TrackVerbs(ABC):
    """`cursor`, `advance`, `newer` … on what `_take_track` and `_read_track` give."""

    @abstractmethod
    def _take_track(self, track: Track, token: str) -> Flow[TrackState | None]:
        """The track, held under *token* from now on; None when another session has it."""

    @abstractmethod
    def _read_track(self, track: Track) -> Flow[TrackState | None]:
        """The track as it is, without holding it; None for one that was never seen."""

    @abstractmethod
    def _free(self, track: Track, waiting: Waiting, now: Instant) -> Any:
        """The buffered write that makes a held handling pending."""

    @abstractmethod
    def _cover(self, track: Track, waiting: Waiting, now: Instant) -> Any:
        """The buffered write that completes a handling on which no worker is at work."""

    @abstractmethod
    def _place(self, until: RowId, waiting: Waiting) -> bool:
        """Whether *waiting* was there when `latest_row` answered *until*."""

    def _held(self, track: Track) -> Flow[TrackState]:
        buffer: Buffer = yield State()
        if track in buffer.tracks:
            return buffer.tracks[track]
        waited_ms, nap_ms = 0, POLL_MS_MIN
        while True:
            state = yield from self._take_track(track, buffer.token)
            if state is not None:
                buffer.tracks[track] = state
                return state
            if waited_ms >= buffer.wait_ms:
                raise StoreBusy(f"another session is at work on {track.key!r}")
            yield Pause(nap_ms)
            waited_ms += nap_ms
            nap_ms = min(nap_ms * 2, POLL_MS_MAX)

    def _seen(self, track: Track) -> Flow[TrackState | None]:
        buffer: Buffer = yield State()
        if track in buffer.tracks:
            return buffer.tracks[track]
        return (yield from self._read_track(track))

    def turn(self, track: Track, token: str) -> Flow[tuple[int, bool]]:
        state = yield from self._held(track)
        generation = state.begin()
        if state.token == token:
            return generation, False
        state.seq, state.token, state.is_changed = generation + 1, token, True
        return generation + 1, True

    def cursor(self, track: Track, baseline: int) -> Flow[int]:
        state = yield from self._held(track)
        return state.begin(baseline)

    def cursors(self, tracks: Mapping[Track, int]) -> Flow[dict[Track, int]]:
        found: dict[Track, int] = {}
        # In one order that all use: two sessions would otherwise wait for each other.
        for track in sorted(tracks, key=lambda each: (each.source, each.account, each.handler, each.key)):
            found[track] = yield from self.cursor(track, tracks[track])
        return found

    def applied(self, track: Track) -> Flow[int | None]:
        state = yield from self._seen(track)
        return None if state is None else state.seq

    def advance(self, track: Track, *, prev_seq: int, seq: int) -> Flow[bool]:
        state = yield from self._held(track)
        if state.seq is None or not prev_seq <= state.seq < seq:
            return False
        state.seq, state.is_changed = seq, True
        return True

    def release(self, track: Track, seq: int, now: Instant) -> Flow[int]:
        state = yield from self._held(track)
        buffer: Buffer = yield State()
        ready = [
            each
            for each in state.waiting.values()
            if each.status is Status.HELD
            and each.prev_seq is not None
            and each.prev_seq <= seq
            and (str(each.id), track.handler) not in buffer.given_up
        ]
        for each in ready:
            buffer.later.append(self._free(track, each, now))
            each.status, each.due_at = Status.PENDING, now
        return len(ready)

    def arrived(self, places: Sequence[tuple[Track, int]]) -> Flow[list[bool]]:
        answers: list[bool] = []
        for track, seq in places:
            state = yield from self._seen(track)
            answers.append(state is not None and any(each.seq == seq for each in state.waiting.values()))
        return answers

    def newer(self, track: Track, at: int, tie: str) -> Flow[bool]:
        state = yield from self._held(track)
        state.begin()
        if state.at is not None and (state.at, _bytes(state.tie)) >= (at, _bytes(tie)):
            return False
        state.at, state.tie, state.is_changed = at, tie, True
        return True

    def mark(self, track: Track) -> Flow[tuple[int, str] | None]:
        state = yield from self._held(track)
        state.begin()
        return None if state.at is None else (state.at, state.tie)

    def touch(self, track: Track) -> Flow[None]:
        state = yield from self._held(track)
        state.begin()

    def coalesce(self, track: Track, until: RowId, now: Instant) -> Flow[int]:
        state = yield from self._held(track)
        buffer: Buffer = yield State()
        covered = [
            each
            for each in state.waiting.values()
            if each.status in (Status.PENDING, Status.FAILED) and self._place(until, each)
        ]
        for each in covered:
            buffer.later.append(self._cover(track, each, now))
            each.status = Status.COMPLETED
        return len(covered)


def _bytes(tie: str) -> bytes:
    return tie.encode("utf-8", "surrogatepass")


def gap_of(state: TrackState | None, before: Instant) -> Gap | None:
    """The gap in a track: something was held since before *before*, and what it waits for is not in the store."""
    if state is None or state.seq is None:
        return None
    held = [each for each in state.waiting.values() if each.status is Status.HELD and each.due_at <= before]
    # What is owed at or before the cursor (a dead letter that was passed over) is no event's predecessor.
    ahead = [each for each in state.waiting.values() if (each.seq or 0) > state.seq]
    if not held or any(each.status is not Status.HELD for each in ahead):
        return None
    first, since = min(each.prev_seq or 0 for each in held), min(each.due_at for each in held)
    return Gap(state.track, state.seq, first, since)
