from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from tests.support import dynamodb as dynamodb_local
from tests.support.dynamodb import DynamoDB, DynamoDBMissing, dynamodb_server


def client_with_table() -> Any:
    client = boto3.client("dynamodb")
    client.create_table(
        TableName="inbox",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return client


def test_a_conditional_put_is_refused_the_second_time(dynamodb_url: str) -> None:
    client = client_with_table()
    claim = {"TableName": "inbox", "Item": {"pk": {"S": "evt_1"}}, "ConditionExpression": "attribute_not_exists(pk)"}
    client.put_item(**claim)

    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        client.put_item(**claim)

    assert client.meta.endpoint_url == dynamodb_url


def test_a_transaction_repeated_with_its_token_counts_once(dynamodb: DynamoDB) -> None:
    client = client_with_table()
    add = {"TableName": "inbox", "Key": {"pk": {"S": "sum"}}, "UpdateExpression": "ADD n :one"}
    update = {"Update": {**add, "ExpressionAttributeValues": {":one": {"N": "1"}}}}
    for _ in range(2):
        client.transact_write_items(TransactItems=[update], ClientRequestToken="same")

    item = client.get_item(TableName="inbox", Key={"pk": {"S": "sum"}})["Item"]

    assert item["n"] == {"N": "1"}


@pytest.mark.parametrize("round_", [1, 2])
def test_each_test_has_an_account_of_its_own(dynamodb: DynamoDB, round_: int) -> None:
    tables = boto3.client("dynamodb").list_tables()["TableNames"]
    client_with_table()

    assert tables == []


def test_a_jar_that_was_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(dynamodb_local, "INSTALLED", tmp_path)

    with pytest.raises(DynamoDBMissing, match=r"run python -m tests\.prepare"), dynamodb_server():
        pass
