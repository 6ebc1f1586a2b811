"""What promise.md says about receiving, on Redis and DynamoDB: the same tests as on the SQL stores."""

from tests.promises.receiving import (
    test_claims_by_hand,
    test_crashes_and_crowds,
    test_downtime,
    test_equal_bodies,
    test_handlers_and_their_effects,
    test_inline_breaker,
    test_keeping_and_replay,
    test_order_at_the_receiver,
    test_promises,
    test_retries_and_dead_letters,
    test_skip_and_replay,
    test_which_event_is_it,
)

# Those that speak of a SQL connection are about the SQL stores.
SQL_ONLY = {
    "test_a_handler_that_ends_the_transaction_itself_is_told_so",
    "test_a_block_that_commits_is_told_so",
    "test_a_savepoint_in_a_handler_is_fine",
    "test_a_claim_whose_commit_is_refused_says_so_and_can_be_made_again",
    "test_an_async_claim_whose_commit_is_refused_says_so_and_can_be_made_again",
    "test_a_claim_that_loses_a_race_at_its_commit_says_so_and_can_be_made_again",
    "test_a_shadow_replay_by_status_runs_only_the_handlers_that_are_in_it",  # Redis rolls nothing back
    "test_a_worker_prunes_until_all_that_is_old_went",  # on DynamoDB a person does
    "test_without_its_store_the_receiver_processes_nothing_and_says_503",
    "test_connections_that_the_server_cut_are_replaced",
    "test_a_probe_that_did_not_come_to_an_end_is_not_waited_for",
    "test_what_began_before_the_breaker_turned_is_no_probe",  # of no store
    "test_probes_that_are_never_heard_of_again_do_not_pause_a_handler_for_ever",
    "test_a_late_commit_and_a_redelivery_give_one_effect",  # here there is a lease, and the answer says how long
}

MODULES = (
    test_handlers_and_their_effects,
    test_retries_and_dead_letters,
    test_which_event_is_it,
    test_keeping_and_replay,
    test_claims_by_hand,
    test_order_at_the_receiver,
    test_crashes_and_crowds,
    test_equal_bodies,
    test_inline_breaker,
    test_downtime,
    test_skip_and_replay,
)
# Of the rows R1-R25, those that no test above shows in another way.
ROWS = ("test_r1_", "test_r2_", "test_r5_", "test_r8_", "test_r13_", "test_r14_")
globals().update({name: test for name, test in vars(test_promises).items() if name.startswith(ROWS)})
for module in MODULES:
    tests = {name: test for name, test in vars(module).items() if name.startswith("test_") and name not in SQL_ONLY}
    globals().update(tests)
