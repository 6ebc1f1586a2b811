"""Writes that go together: at most one for each item, each with its condition, as one TransactWriteItems takes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hooklane.store.dynamodb.items import Item, typed, typed_item


@dataclass(slots=True)
class Change:
    """What happens to one item. Names and values become placeholders when it is written."""

    key: Item
    put: Item | None = None
    """The whole item; *assign* and *remove* are not used then."""
    delete: bool = False
    assign: Item = field(default_factory=dict)
    set_if_absent: Item = field(default_factory=dict)
    add: Item = field(default_factory=dict)
    remove: set[str] = field(default_factory=set)
    conditions: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Expressions with names written {name} and values :value, and those values."""
    why: str = ""
    """Which verb it belongs to, for the error when its condition does not hold."""

    def when(self, expression: str, **values: Any) -> Change:
        """Only if this holds."""
        self.conditions.append((expression, values))
        return self

    def params(self, table: str) -> tuple[str, dict[str, Any]]:
        """The kind of write (Put, Update, Delete) and its parameters."""
        words = _Words()
        params: dict[str, Any] = {"TableName": table}
        if self.put is not None:
            kind, params["Item"] = "Put", typed_item(self.put)
        elif self.delete:
            kind, params["Key"] = "Delete", typed_item(self.key)
        else:
            kind, params["Key"] = "Update", typed_item(self.key)
            params["UpdateExpression"] = self._update(words)
        condition = " AND ".join(f"({words.expression(text, values)})" for text, values in self.conditions)
        if condition:
            params["ConditionExpression"] = condition
        if words.names:
            params["ExpressionAttributeNames"] = words.names
        if words.values:
            params["ExpressionAttributeValues"] = words.values
        return kind, params

    def _update(self, words: _Words) -> str:
        clauses = []
        sets = [
            f"{words.name(name)} = {words.value(value)}" for name, value in self.assign.items() if value is not None
        ]
        sets += [
            f"{words.name(name)} = if_not_exists({words.name(name)}, {words.value(value)})"
            for name, value in self.set_if_absent.items()
        ]
        if sets:
            clauses.append("SET " + ", ".join(sets))
        gone = sorted(self.remove | {name for name, value in self.assign.items() if value is None})
        if gone:
            clauses.append("REMOVE " + ", ".join(words.name(name) for name in gone))
        if self.add:
            clauses.append("ADD " + ", ".join(f"{words.name(n)} {words.value(v)}" for n, v in self.add.items()))
        return " ".join(clauses)


class _Words:
    """Placeholders: our names hold # and :, and some are reserved words of DynamoDB."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, Any] = {}
        self._by_name: dict[str, str] = {}

    def name(self, name: str) -> str:
        if name not in self._by_name:
            self._by_name[name] = f"#n{len(self._by_name)}"
            self.names[self._by_name[name]] = name
        return self._by_name[name]

    def value(self, value: Any) -> str:
        word = f":v{len(self.values)}"
        self.values[word] = typed(value)
        return word

    def expression(self, text: str, values: dict[str, Any]) -> str:
        """*text* with its {name} and :value replaced."""
        for name in sorted(values, key=len, reverse=True):
            text = text.replace(f":{name}", self.value(values[name]))
        out, rest = "", text
        while "{" in rest:
            before, _, rest = rest.partition("{")
            name, _, rest = rest.partition("}")
            out += before + self.name(name)
        return out + rest


class Changes:
    """The changes of a commit, by item."""

    def __init__(self) -> None:
        self._by_item: dict[tuple[str, str], Change] = {}

    def of(self, key: Item, why: str = "") -> Change:
        """The change of the item at *key*: all who change it share one."""
        place = (key["pk"], key["sk"])
        if place not in self._by_item:
            self._by_item[place] = Change({"pk": key["pk"], "sk": key["sk"]}, why=why)
        change = self._by_item[place]
        change.why = change.why or why
        return change

    def __iter__(self) -> Any:
        return iter(self._by_item.values())

    def __len__(self) -> int:
        return len(self._by_item)
