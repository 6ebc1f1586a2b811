"""Planted bugs: each a small, plausible mistake that the simulator must notice, or it proves nothing."""

from dataclasses import replace

from hooklane.testing.sim.faults import POISONED, SLOW
from hooklane.testing.sim.mutants import engines, shells, stores
from hooklane.testing.sim.mutants.mutant import Mutant

MUTANTS: dict[str, Mutant] = {
    "no_fence": Mutant(store=stores.NoFence),
    "zombie_acks_accepted": Mutant(store=stores.ZombieAcksAccepted),
    "epoch_not_bumped": Mutant(store=stores.EpochNotBumped),
    "rev_ignored": Mutant(store=stores.RevIgnored),
    "lanes_read_before_acks": Mutant(store=stores.LanesReadBeforeAcks),
    "load_before_acquire": Mutant(store=stores.LoadBeforeAcquire),
    "mark_after_load": Mutant(store=stores.MarkAfterLoad, faults=SLOW, keys=1_000),
    "attempts_reset_on_takeover": Mutant(store=stores.AttemptsResetOnTakeover),
    "next_at_lost_on_takeover": Mutant(store=stores.NextAtLostOnTakeover),
    "fold_lowers_the_head": Mutant(store=stores.FoldLowersTheHead),
    "replay_of_the_wrong_seq": Mutant(store=stores.ReplayOfTheWrongSeq),
    "skip_without_record": Mutant(store=stores.SkipWithoutRecord),
    "repeated_publish_stamps_twice": Mutant(store=stores.RepeatedPublishStampsTwice),
    "ack_before_durable": Mutant(engine=engines.AckBeforeDurable),
    "dead_letter_advances_the_key": Mutant(engine=engines.DeadLetterAdvancesTheKey),
    "backoff_ignored": Mutant(engine=engines.BackoffIgnored),
    "two_in_flight": Mutant(engine=engines.TwoInFlight),
    "growth_unblocks": Mutant(engine=engines.GrowthUnblocks),
    "feed_sets_the_head": Mutant(engine=engines.FeedSetsTheHead),
    "stale_head_on_reload": Mutant(
        engine=engines.StaleHeadOnReload, faults=replace(SLOW, leave_every_ms=0, poison=0.3, store_slow=0.3)
    ),
    "timeout_counted_as_delivered": Mutant(engine=engines.TimeoutCountedAsDelivered),
    "client_error_counted_as_delivered": Mutant(engine=engines.ClientErrorCountedAsDelivered),
    "every_death_is_skipped": Mutant(engine=engines.EveryDeathIsSkipped),
    "attempts_never_end": Mutant(engine=engines.AttemptsNeverEnd),
    "everyone_is_blamed": Mutant(engine=engines.EveryoneIsBlamed, faults=POISONED),
    "unknown_commit_counted_as_ok": Mutant(worker=shells.UnknownCommitCountedAsOk),
    "failed_commit_counted_as_no": Mutant(worker=shells.FailedCommitCountedAsNo),
    "handover_in_flight": Mutant(worker=shells.HandoverInFlight),
    "reads_overlap": Mutant(worker=shells.ReadsOverlap, faults=SLOW, keys=1_000),
    "lost_acquire_is_forgotten": Mutant(worker=shells.LostAcquireIsForgotten),
    "body_changes_with_the_attempt": Mutant(network=shells.BodyChangesWithTheAttempt),
}

__all__ = ["MUTANTS", "Mutant"]
