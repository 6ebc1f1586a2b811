"""Planted bugs: each a small, plausible mistake that the simulator must notice, or it proves nothing."""

from dataclasses import replace
from functools import partial

from hooklane.core.engine import Engine
from hooklane.core.worker import Parts
from hooklane.testing.sim.faults import ALONE, CRASHING, LEAVING, MISSING, POISONED, ROUGH, SLOW, VISITED
from hooklane.testing.sim.mutants import engines, networks, stores, workers
from hooklane.testing.sim.mutants.mutant import Mutant

_UNSWEPT = Parts(sweeping=workers.NeverSweeps)

MUTANTS: dict[str, Mutant] = {
    "no_fence": Mutant(store=stores.NoFence),
    "zombie_acks_accepted": Mutant(store=stores.ZombieAcksAccepted),
    "epoch_not_bumped": Mutant(store=stores.EpochNotBumped),
    "rev_ignored": Mutant(store=stores.RevIgnored),
    "lanes_read_before_acks": Mutant(
        store=stores.LanesReadBeforeAcks, faults=replace(ROUGH, leave_every_ms=200, store_interleaved=1.0)
    ),
    "load_before_acquire": Mutant(store=stores.LoadBeforeAcquire, faults=LEAVING, keys=10, publish_every_ms=200.0),
    "mark_after_load": Mutant(store=stores.MarkAfterLoad, parts=_UNSWEPT, faults=SLOW, keys=1_000),
    "attempts_reset_on_takeover": Mutant(store=stores.AttemptsResetOnTakeover),
    "next_at_lost_on_takeover": Mutant(store=stores.NextAtLostOnTakeover),
    "fold_lowers_the_head": Mutant(store=stores.FoldLowersTheHead, faults=replace(ROUGH, poison=0.3)),
    "replay_of_the_wrong_seq": Mutant(store=stores.ReplayOfTheWrongSeq),
    "skip_without_record": Mutant(store=stores.SkipWithoutRecord),
    "repeated_publish_stamps_twice": Mutant(store=stores.RepeatedPublishStampsTwice),
    "ack_before_durable": Mutant(engine=partial(Engine, outcomes=engines.AckBeforeDurable)),
    "dead_letter_advances_the_key": Mutant(engine=partial(Engine, outcomes=engines.DeadLetterAdvancesTheKey)),
    "backoff_ignored": Mutant(engine=partial(Engine, heads=engines.BackoffIgnored)),
    "two_in_flight": Mutant(engine=partial(Engine, heads=engines.TwoInFlight)),
    "growth_unblocks": Mutant(engine=engines.GrowthUnblocks, faults=replace(SLOW, poison=0.4)),
    "feed_sets_the_head": Mutant(engine=engines.FeedSetsTheHead),
    "stale_head_on_reload": Mutant(
        engine=engines.StaleHeadOnReload, faults=replace(SLOW, leave_every_ms=0, poison=0.3, store_slow=0.3)
    ),
    "timeout_counted_as_delivered": Mutant(engine=partial(Engine, outcomes=engines.TimeoutCountedAsDelivered)),
    "client_error_counted_as_delivered": Mutant(engine=partial(Engine, outcomes=engines.ClientErrorCountedAsDelivered)),
    "every_death_is_skipped": Mutant(engine=partial(Engine, outcomes=engines.EveryDeathIsSkipped)),
    "attempts_never_end": Mutant(engine=partial(Engine, outcomes=engines.AttemptsNeverEnd)),
    "everyone_is_blamed": Mutant(engine=partial(Engine, heads=engines.EveryoneIsBlamed), faults=POISONED),
    "unknown_commit_counted_as_ok": Mutant(parts=Parts(writing=workers.UnknownCommitCountedAsOk)),
    "failed_commit_counted_as_no": Mutant(parts=Parts(writing=workers.FailedCommitCountedAsNo)),
    "handover_in_flight": Mutant(parts=Parts(ownership=workers.HandoverInFlight)),
    "reads_overlap": Mutant(parts=replace(_UNSWEPT, news=workers.ReadsOverlap), faults=SLOW, keys=1_000),
    "mark_outlives_its_session": Mutant(
        parts=replace(_UNSWEPT, news=workers.MarkOutlivesItsSession), faults=CRASHING, keys=1_000
    ),
    "polls_miss_and_nobody_sweeps": Mutant(parts=_UNSWEPT, faults=MISSING, keys=1_000),
    "lost_acquire_is_forgotten": Mutant(parts=Parts(ownership=workers.LostAcquireIsForgotten)),
    "looks_are_never_believed": Mutant(parts=Parts(sweeping=workers.LooksAreNeverBelieved), faults=MISSING, keys=1_000),
    "busy_is_parked_for_ever": Mutant(parts=Parts(ownership=workers.BusyIsParkedForEver), faults=VISITED, keys=200),
    "writes_outlive_their_epoch": Mutant(
        parts=Parts(writing=workers.WritesOutliveTheirEpoch),
        faults=replace(ROUGH, workers=2, pause_every_ms=500, crash_every_ms=0, leave_every_ms=0, store_slow=0.4),
    ),
    "drains_without_its_commits": Mutant(parts=Parts(writing=workers.DrainsWithoutItsCommits)),
    "spans_hide_others": Mutant(
        parts=replace(_UNSWEPT, news=workers.SpansHideOthers), faults=ALONE, keys=1_000, publish_every_ms=100.0
    ),
    "body_changes_with_the_attempt": Mutant(network=networks.BodyChangesWithTheAttempt),
}

__all__ = ["MUTANTS", "Mutant"]
