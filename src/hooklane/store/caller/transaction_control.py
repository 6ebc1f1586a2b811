"""Does this text of SQL end the transaction that it is sent in? PostgreSQL's words, read as its own lexer reads them.

A text may hold several statements, comments between the words, and the same words inside strings, names and bodies of
functions, where they end nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

GUARD = "hooklane_guard"
"""The cursor that refuses a commit: who closes it is about to commit."""
REFUSAL = "hooklane commits this transaction when the handler returns, so the handler must not"
"""What a commit is answered then."""


class Ending(Enum):
    """What a text does to the transaction that it is sent in."""

    NONE = "none"
    ROLLBACK = "rollback"
    """It is one ROLLBACK and nothing else: what was written is undone, and nothing follows."""
    CONTROL = "control"
    """Anything else that begins or ends transactions, alone or among other statements."""


# Nearly no text of a handler has one of these words, and then there is nothing to read.
_SUSPECT = re.compile(r"begin|start|commit|end|abort|rollback|prepare|close", re.IGNORECASE)
_TOKEN = re.compile(
    r"""
      --[^\n\r]*+
    | (?P<comment>/\*)
    | [eE]'(?:[^'\\]|\\.|'')*+'
    | '(?:[^']|'')*+'
    | "(?P<name>(?:[^"]|"")*+)"
    | (?P<dollar>\$(?:[^\W\d]\w*+)?\$)
    | (?P<word>[^\W\d][\w$]*+)
    | (?P<mark>[;()])
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


def ending_of(sql: str) -> Ending:
    if _SUSPECT.search(sql) is None:
        return Ending.NONE
    statements = list(_statements(sql))
    if not any(_is_control(words) for words in statements):
        return Ending.NONE
    is_rollback = len(statements) == 1 and statements[0][0] in ("rollback", "abort") and "chain" not in statements[0]
    return Ending.ROLLBACK if is_rollback else Ending.CONTROL


def _is_control(words: list[str]) -> bool:
    match words:
        case ["rollback", "to", *_] | ["rollback", "work" | "transaction", "to", *_]:
            return False  # to a savepoint
        case ["begin" | "start" | "commit" | "end" | "abort" | "rollback", *_]:
            return True
        case ["prepare", "transaction", *_] | ["close", "all" | "hooklane_guard", *_]:
            return True
        case _:
            return False


def _statements(sql: str) -> Iterator[list[str]]:
    """The first words of each statement, in small letters, as far as they are looked at."""
    words: list[str] = []
    depth = 0  # in brackets, as in CREATE RULE, or in the body of a function that BEGIN ATOMIC opens
    body = 0
    before = ""
    for word in _words(sql):
        if word == ";" and not depth and not body:
            if words:
                yield words
            words = []
        elif word in "()":
            depth = max(depth + (1 if word == "(" else -1), 0)
        elif word != ";":
            if words[:1] == ["create"]:
                if word == "atomic" and before == "begin":
                    body += 1
                elif body:
                    body += (word == "case") - (word == "end")
            if len(words) < _LOOKED_AT:
                words.append(word)
        before = word
    if words:
        yield words


_LOOKED_AT = 6
"""ROLLBACK TRANSACTION AND NO CHAIN, and one more."""


def _words(sql: str) -> Iterator[str]:
    """Words, names and the marks between statements; no strings and no comments."""
    at = 0
    while (token := _TOKEN.search(sql, at)) is not None:
        at = token.end()
        if token["comment"]:
            at = _end_of_comment(sql, at)
        elif token["dollar"]:
            closing = sql.find(token["dollar"], at)
            at = len(sql) if closing < 0 else closing + len(token["dollar"])
        elif token["word"]:
            yield token["word"].lower()
        elif token["name"] is not None:
            # Only a name, whatever it says: "commit" is none of the words that end a transaction.
            yield GUARD if token["name"] == GUARD else '"'
        elif token["mark"]:
            yield token["mark"]


def _end_of_comment(sql: str, at: int) -> int:
    depth = 1  # PostgreSQL's comments nest
    while depth:
        edge = _COMMENT_EDGE.search(sql, at)
        if edge is None:
            return len(sql)
        depth += 1 if edge.group() == "/*" else -1
        at = edge.end()
    return at
