"""What a handler gets as `tx` on DynamoDB: writes that become part of the transaction which completes its event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from boto3.dynamodb.types import TypeSerializer

from hooklane.errors import HooklaneError, UsageError

ACTIONS_MAX = 100
"""What one TransactWriteItems takes, ours included."""
OURS_MAX = 20


class ConditionFailed(HooklaneError):
    """The condition of a write of the handler's own did not hold; nothing was written. *write* says which."""

    def __init__(self, write: str) -> None:
        super().__init__(f"the condition of {write} did not hold; nothing was written")
        self.write = write


class DynamoTx:
    """Collects the handler's writes; they happen all together with the completion, or not at all.

    Values are plain Python values (`Decimal` for numbers with a fraction). Conditions and updates are expressions of
    DynamoDB; *names* and *values* are their placeholders, with or without `#` and `:`.
    """

    def __init__(self) -> None:
        self._actions: list[dict[str, Any]] = []
        self._told: list[str] = []
        self._is_open = True

    def put(
        self,
        table: str,
        item: Mapping[str, Any],
        *,
        condition: str | None = None,
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        """Write *item* (if *condition* holds: `attribute_not_exists(pk)` inserts once)."""
        self._append("Put", table, condition, names, values, Item=_serialized(item))

    def update(
        self,
        table: str,
        key: Mapping[str, Any],
        update: str,
        *,
        condition: str | None = None,
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        """Change the item at *key*: `ADD balance :amount`, `SET state = :s` …"""
        self._append("Update", table, condition, names, values, Key=_serialized(key), UpdateExpression=update)

    def delete(
        self,
        table: str,
        key: Mapping[str, Any],
        *,
        condition: str | None = None,
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        """Remove the item at *key*."""
        self._append("Delete", table, condition, names, values, Key=_serialized(key))

    def condition_check(
        self,
        table: str,
        key: Mapping[str, Any],
        condition: str,
        *,
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        """Write nothing, but let everything fail unless *condition* holds of the item at *key*."""
        self._append("ConditionCheck", table, condition, names, values, Key=_serialized(key))

    def _append(
        self,
        kind: str,
        table: str,
        condition: str | None,
        names: Mapping[str, str] | None,
        values: Mapping[str, Any] | None,
        **rest: Any,
    ) -> None:
        if not self._is_open:
            raise UsageError("tx belongs to the handler that is done: it can write nothing more")
        if len(self._actions) >= ACTIONS_MAX - OURS_MAX:
            raise UsageError(f"a transaction of DynamoDB takes {ACTIONS_MAX} writes, {OURS_MAX} of them ours")
        params: dict[str, Any] = {"TableName": table, **rest}
        if condition is not None:
            params["ConditionExpression"] = condition
        if names:
            params["ExpressionAttributeNames"] = {f"#{name.lstrip('#')}": value for name, value in names.items()}
        if values:
            params["ExpressionAttributeValues"] = {
                f":{name.lstrip(':')}": _SERIALIZER.serialize(value) for name, value in values.items()
            }
        self._actions.append({kind: params})
        self._told.append(f"{kind.lower()} number {len(self._actions)} (table {table})")

    def close(self) -> None:
        """No more writes: the handler is done."""
        self._is_open = False

    @property
    def actions(self) -> list[dict[str, Any]]:
        return list(self._actions)

    def tell(self, number: int) -> str:
        """Which write *number* (from 0) is, in words."""
        return self._told[number]


_SERIALIZER = TypeSerializer()


def _serialized(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _SERIALIZER.serialize(value) for name, value in item.items()}
