"""What promise.md says about receiving, on Redis and DynamoDB: the same tests as on the SQL stores."""

from tests.inbox import test_crashes_and_crowds, test_order_at_the_receiver, test_promises_of_receiving

# Those that speak of a SQL connection are about the SQL stores.
SQL_ONLY = {
    "test_a_handler_that_ends_the_transaction_itself_is_told_so",
    "test_a_block_that_commits_is_told_so",
    "test_a_savepoint_in_a_handler_is_fine",
    "test_without_its_store_the_receiver_processes_nothing_and_says_503",
    "test_connections_that_the_server_cut_are_replaced",
    "test_a_late_commit_and_a_redelivery_give_one_effect",  # here there is a lease, and the answer says how long
}

for module in (test_promises_of_receiving, test_order_at_the_receiver, test_crashes_and_crowds):
    tests = {name: test for name, test in vars(module).items() if name.startswith("test_") and name not in SQL_ONLY}
    globals().update(tests)
