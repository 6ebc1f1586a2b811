"""One transaction in which several flows have a part: how many, for how long, and what the commit makes of them."""

from __future__ import annotations

import time

from hooklane.errors import StoreBusy, StoreError
from hooklane.receiver.drive import Driver
from hooklane.receiver.errand import Errand
from hooklane.store.inbox import Shared

PARTS_MAX = 64
TOGETHER_S = 0.025
"""A commit is not put off for longer to run one more part."""
SLOW_S = 0.05
ALONE_S = 1.0
"""Where a handler took longer than `SLOW_S`, nobody's answer waits for another's handler for so long."""


class Batch:
    """A transaction, and those who have a part in it."""

    def __init__(self, driver: Driver, session: Shared) -> None:
        self._driver = driver
        self._session = session
        driver.session = session
        self.taken: list[Errand] = []
        self.played = 0
        self.now = self._began = time.monotonic()

    @property
    def is_full(self) -> bool:
        return self.played >= PARTS_MAX or self.now - self._began > TOGETHER_S

    def take(self, errand: Errand) -> Errand:
        """From now on, whoever leads has it in hand."""
        self.taken.append(errand)
        return errand

    def let_go(self, errand: Errand) -> None:
        """It was undone, and does not wait for the commit."""
        self.taken.remove(errand)

    def play(self, errand: Errand) -> float:
        """Run its part; how long it took. What fails here must not undo the work of those before."""
        saved = self.played > 0
        if saved:
            self._session.save()
        self.played += 1
        if errand.context is None:
            errand.play(self._driver, self._session, saved)
        else:
            errand.context.run(errand.play, self._driver, self._session, saved)
        before, self.now = self.now, time.monotonic()
        return self.now - before

    def commit(self) -> bool:
        """For all whose part was kept; False when it failed for several, of whom one may be to blame."""
        kept = [errand for errand in self.taken if errand.is_kept]
        if not kept:
            return True
        try:
            if self.played > 1 and not self._session.is_whole:
                raise StoreBusy("another one undid the whole transaction")
            self._session.commit()
        except StoreError as error:
            if self.played == 1:
                kept[0].refused(error)
                return True
            # A deferred constraint, perhaps: all try again, each for itself.
            for errand in kept:
                errand.refused(StoreBusy(f"a commit that several transactions shared failed: {error}"))
            return False
        watched = self._driver.is_watched
        for errand in kept:
            errand.committed(watched)
        return True
