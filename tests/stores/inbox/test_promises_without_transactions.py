"""What promise.md says about receiving, on Redis and DynamoDB: the same tests as on the SQL stores."""

from tests.promises.receiving import (
    test_crashes_and_crowds,
    test_downtime,
    test_equal_bodies,
    test_inline_breaker,
    test_order_at_the_receiver,
    test_promises_of_receiving,
    test_skip_and_replay,
)

# Those that speak of a SQL connection are about the SQL stores.
SQL_ONLY = {
    "test_a_handler_that_ends_the_transaction_itself_is_told_so",
    "test_a_block_that_commits_is_told_so",
    "test_a_savepoint_in_a_handler_is_fine",
    "test_without_its_store_the_receiver_processes_nothing_and_says_503",
    "test_connections_that_the_server_cut_are_replaced",
    "test_a_probe_that_did_not_come_to_an_end_is_not_waited_for",
    "test_what_began_before_the_breaker_turned_is_no_probe",  # of no store
    "test_probes_that_are_never_heard_of_again_do_not_pause_a_handler_for_ever",
    "test_a_late_commit_and_a_redelivery_give_one_effect",  # here there is a lease, and the answer says how long
}

MODULES = (
    test_promises_of_receiving,
    test_order_at_the_receiver,
    test_crashes_and_crowds,
    test_equal_bodies,
    test_inline_breaker,
    test_downtime,
    test_skip_and_replay,
)
for module in MODULES:
    tests = {name: test for name, test in vars(module).items() if name.startswith("test_") and name not in SQL_ONLY}
    globals().update(tests)
