"""One transaction in which several flows have a part: how many, for how long, and what the commit makes of them."""

from __future__ import annotations

import time

from hooklane.errors import StoreBusy, StoreError
from hooklane.receiver.drivers import Driver
from hooklane.receiver.shared_commit.part import Part
from hooklane.store.inbox import Shared

PARTS_MAX = 64
TOGETHER_S = 0.025
"""A commit is not put off for longer to run one more part."""
SLOW_S = 0.05
ALONE_S = 1.0
"""Where a handler took longer than `SLOW_S`, no request waits for the handler of another for so long."""


class SharedTransaction:
    """A transaction, and the flows that have a part in it."""

    def __init__(self, driver: Driver, session: Shared) -> None:
        self._driver = driver
        self._session = session
        driver.session = session
        self.taken: list[Part] = []
        """Those that the thread that leads has in hand, and has to tell."""
        self.played = 0
        self.now = self._began = time.monotonic()

    @property
    def is_full(self) -> bool:
        return self.played >= PARTS_MAX or self.now - self._began > TOGETHER_S or self._session.is_marked

    def play(self, part: Part) -> float:
        """Run the part of one flow; how long it took. What fails here must not undo the work of those before."""
        saved = self.played > 0
        if saved:
            self._session.save()
        self.played += 1
        if part.context is None:
            part.play(self._driver, self._session, saved)
        else:
            part.context.run(part.play, self._driver, self._session, saved)
        before, self.now = self.now, time.monotonic()
        return self.now - before

    def commit(self) -> bool:
        """For all parts that were kept; False when it failed for several, of which one may be to blame."""
        kept = [part for part in self.taken if part.is_kept]
        if not kept:
            return True
        try:
            if self.played > 1 and not self._session.is_whole:
                raise StoreBusy("another handler made the database roll back the transaction that they shared")
            self._session.commit()
        except StoreError as error:
            if self.played == 1:
                kept[0].refused(error)
                return True
            # A deferred constraint, perhaps: all try again, each for itself.
            for part in kept:
                part.refused(StoreBusy(f"a commit that several transactions shared failed: {error}"))
            return False
        for part in kept:
            part.committed()
        return True
