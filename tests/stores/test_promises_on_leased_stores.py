"""What promise.md says about receiving, on Redis and DynamoDB: the same tests as on the SQL stores."""

from tests.inbox import test_promises_of_receiving as promises

# Those that speak of a SQL connection are about the SQL stores.
SQL_ONLY = {
    "test_a_handler_that_ends_the_transaction_itself_is_told_so",
    "test_a_block_that_commits_is_told_so",
    "test_a_savepoint_in_a_handler_is_fine",
}

globals().update(
    {name: test for name, test in vars(promises).items() if name.startswith("test_") and name not in SQL_ONLY}
)
