"""What is a call of the API, and what is its answer? The same values for HTTP and for the command line's direct way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from hooklane.core.fanout import STARS_MAX
from hooklane.model.api_key import Scope
from hooklane.model.audit import Act
from hooklane.model.clock import FIRST_TOLD, LAST_TOLD, Instant
from hooklane.model.event import DEFAULT_TENANT
from hooklane.server import json_body
from hooklane.server.caller import ADMIN, Caller
from hooklane.server.problem import Problem
from hooklane.server.schema_words import TEXT, Words, whole
from hooklane.store.reads import PAGE_MAX, Page

if TYPE_CHECKING:
    from hooklane.server.auth import Authenticator
    from hooklane.server.services import Services

PAGE_DEFAULT = 50
PATTERN_CHARS_MAX = 255
JSON = "application/json"
NDJSON = "application/x-ndjson"

S = TypeVar("S", bound=msgspec.Struct)
D = TypeVar("D", bound=str | None)
N = TypeVar("N", bound=int | None)
W = TypeVar("W", bound=str)


@dataclass(slots=True)
class Call:
    """One call: the path's parameters, the query, the headers (lower case) and the body, nothing parsed yet."""

    services: Services
    params: Mapping[str, str]
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    tenant: str = DEFAULT_TENANT
    """On whose data it acts (`tenant_of_call`)."""
    actor: str = "api"
    asks_key: bool = True
    """Whether this server asks for a key at all."""
    caller: Caller = ADMIN
    peer: str = ""
    """The address that the call comes from."""
    auth: Authenticator | None = None
    """What let the call in; None where a command opened the database itself."""
    routes: Sequence[Route] = ()
    """All that this server answers, for its description."""

    def read(self, shape: type[S]) -> S:
        return json_body.read(self.body, shape)

    def limit(self) -> int:
        """How many items a page holds: `limit`, 1 to 200."""
        return self.number("limit", 1, PAGE_MAX, PAGE_DEFAULT)

    def number(self, name: str, least: int, most: int, default: N) -> int | N:
        """The whole number from *least* to *most* that the parameter *name* says; *default* where it is left out."""
        text = self.query.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= 9 and least <= int(text) <= most):
            raise Problem("invalid_parameter", f"{name} must be a number from {least} to {most}, got {text[:40]!r}")
        return int(text)

    def instant(self, name: str) -> Instant | None:
        """The time that the parameter *name* says, with its zone."""
        text = self.query.get(name)
        if text is None:
            return None
        at = instant_of(text)
        if at is None:
            raise Problem(
                "invalid_parameter",
                f"{name} must be a time with its zone, such as 2026-03-01T12:00:00Z, got {text[:40]!r}",
            )
        return at

    def _of_tenant(self, listing: str) -> str:
        """The name of a list of this call's tenant: a cursor of another tenant's is refused."""
        return listing if self.tenant == DEFAULT_TENANT else f"{listing} of {self.tenant}"

    def cursor(self, listing: str) -> str | None:
        """Where the page of *listing* starts, as the store said; None for the first."""
        return self.services.cursors.open(self._of_tenant(listing), self.query)

    def listed(self, listing: str, page: Page[Any], items: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """*items* of a *page* as the API answers a list."""
        return {
            "items": list(items),
            "next": self.services.cursors.seal(self._of_tenant(listing), self.query, page.next),
        }

    def word(self, name: str, known: Iterable[str], default: D) -> str | D:
        """The one of the *known* words that the parameter *name* says; *default* where it is left out."""
        word = self.query.get(name)
        if word is None:
            return default
        if word not in tuple(known):
            raise Problem("invalid_parameter", f"{name} must be one of {', '.join(known)}, got {word[:40]!r}")
        return word

    def words(self, name: str, known: Iterable[W]) -> list[W] | None:
        """Those of the *known* words that the parameter *name* says, with commas; None where it is left out."""
        text = self.query.get(name)
        if text is None:
            return None
        by_name = {str(word): word for word in known}
        said = list(dict.fromkeys(text.split(",")))
        if unknown := [word for word in said if word not in by_name]:
            listed = ", ".join(by_name)
            raise Problem("invalid_parameter", f"{name} must be one or more of {listed}, got {unknown[0][:40]!r}")
        return [by_name[word] for word in said]

    def switch(self, name: str) -> bool:
        """Whether the parameter *name* is `true`; left out, it is `false`."""
        return self.word(name, ("true", "false"), "false") == "true"

    def act(self, action: str, subject: str, note: str = "") -> Act:
        """The line of the audit log for this call."""
        now = self.services.now()
        return Act(tenant=self.tenant, at=now, actor=self.actor, action=action, subject=subject, note=note)

    def wants_lines(self) -> bool:
        return NDJSON in self.headers.get("accept", "").lower()


def pattern_of(text: str | None, name: str, code: str = "invalid_parameter") -> str | None:
    """What *text* asks a store to look for, with `*` for anything; a store should not have to bear more."""
    if text is not None and (len(text) > PATTERN_CHARS_MAX or text.count("*") > STARS_MAX):
        raise Problem(code, f"{name} must have at most {PATTERN_CHARS_MAX} characters and at most {STARS_MAX} `*`")
    return text


def instant_of(text: str) -> Instant | None:
    """The time that *text* says, with its zone; None where it says none, or one that is not in the years 1 to 9999."""
    try:
        said = msgspec.convert(text, datetime)
        at = Instant(int(said.timestamp() * 1000))
    except (msgspec.ValidationError, ValueError, OverflowError):
        return None
    # At the edge of these years a zone leads out of them, and what is stored must be told again.
    return at if said.tzinfo is not None and FIRST_TOLD <= at <= LAST_TOLD else None


@dataclass(slots=True)
class Response:
    """A finished answer, or one that is still being written when *stream* is given."""

    status: int
    body: bytes = b""
    media: str = JSON
    headers: Sequence[tuple[str, str]] = ()
    stream: AsyncIterator[bytes] | None = None
    is_secret: bool = False
    """Whether it tells a secret: then it is never compressed."""
    ended: Callable[[], None] | None = None
    """Called when nothing more of it is sent. A *stream* cannot see to that: where its client leaves at once, or asks
    with `HEAD`, it never begins."""


Handler = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of the query, as the documentation shows it."""

    name: str
    about: str
    words: Words = field(default_factory=lambda: TEXT, hash=False)
    """What it may be, as JSON Schema."""


PAGING = (
    Param(
        "cursor",
        "where the page starts: `next` of the page before",
        {"type": "string", "maxLength": 2048, "pattern": "^[A-Za-z0-9_-]+$"},
    ),
    Param(
        "limit",
        "items a page at most, 1-200; a search that looked at enough ends its page early, with `next`",
        whole(1, PAGE_MAX),
    ),
)


class Access(StrEnum):
    """Which callers need no API key."""

    KEY = "key"  # none: every caller needs it
    LOOPBACK = "loopback"  # callers on this machine, where no other can reach the server
    NOTHING = "nothing"  # all of them: the answer holds no data


@dataclass(frozen=True, slots=True)
class Route:
    """One row of the API's table: method and path, the handler, and what the documentation says."""

    method: str
    path: str
    run: Handler
    summary: str
    tag: str = field(kw_only=True)
    status: int = 200
    takes: type[msgspec.Struct] | None = None
    answers: Any = None
    """The shape of its JSON answer; None where it answers none of ours."""
    gives: str = JSON
    takes_lines: bool = False
    """Whether its body may be NDJSON too."""
    gives_lines: bool = False
    """Whether it answers NDJSON too, where `Accept` asks for it."""
    query: Sequence[Param] = ()
    body_max: int = json_body.BODY_BYTES_MAX
    needs: Access = Access.KEY
    scope: Scope | None = None
    """What a key must permit; None for what the method suggests (permission.py)."""
    searches: bool = False
    """Whether a call that is no GET looks for much as well."""
    of_server: bool = False
    """Whether it is about the whole server: a key of one tenant is refused."""
    tells_secret: bool = False
    """Whether its answer holds a secret (a signing secret, a key): see compress.py."""

    @property
    def is_question(self) -> bool:
        """Whether its work may end when the client leaves: nothing is changed that would be left half done."""
        return self.method == "GET" or self.searches


class Routes:
    """The calls of one resource, which have a tag and the beginning of their paths in common.

    A handler becomes one by the line before it: `@routes.get("/{id}", "An event with its deliveries.")`.
    """

    def __init__(self, tag: str, path: str, *, of_server: bool = False) -> None:
        self._tag, self._path, self._of_server = tag, path, of_server
        self._made: list[Route] = []
        self.get, self.post, self.put = self._of("GET"), self._of("POST"), self._of("PUT")
        self.patch, self.delete = self._of("PATCH"), self._of("DELETE")

    def __iter__(self) -> Iterator[Route]:
        return iter(self._made)

    def _of(self, method: str) -> Callable[..., Callable[[Handler], Handler]]:
        def described(path: str, summary: str, **about: Any) -> Callable[[Handler], Handler]:
            """*about*: the other fields of `Route`."""

            def made(run: Handler) -> Handler:
                shared = {"tag": self._tag, "of_server": self._of_server}
                self._made.append(Route(method, self._path + path, run, summary, **{**shared, **about}))
                return run

            return made

        return described


def answer(value: Any, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> Response:
    return Response(status, msgspec.json.encode(value), headers=headers)


def parse_query(text: bytes, known: Sequence[Param]) -> dict[str, str]:
    """The query as a mapping; a parameter that the route does not know, or one given twice, is a mistake to be told."""
    names = {param.name for param in known}
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50)
    except ValueError:
        raise Problem("invalid_parameter", "the query is not valid percent-encoded UTF-8") from None
    query: dict[str, str] = {}
    for name, value in pairs:
        if name not in names:
            listed = ", ".join(sorted(names)) or "none"
            raise Problem("invalid_parameter", f"unknown parameter {name[:40]!r}; this call has: {listed}")
        if name in query:
            raise Problem("invalid_parameter", f"parameter {name!r} may be given only once")
        if "\0" in value:
            raise Problem("invalid_parameter", f"parameter {name!r} must not hold a NUL character")
        if value:
            query[name] = value
    return query
