"""How a command makes its calls: to a server over HTTP or to a database directly, with the same answers."""

from __future__ import annotations

import contextlib
import http.client
import math
import os
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import msgspec

from hooklane.cli.exits import CallFailed, Exit, exit_of
from hooklane.cli.options import tenant_headers
from hooklane.cli.output import detail
from hooklane.config import DEFAULT_PORT, Secret, load
from hooklane.errors import ConfigError, StoreRefused, needing
from hooklane.model.database_url import shown

TIMEOUT_S = 35.0
MARK = "hooklane-api"
"""The header of every answer of the API: of what some other server says nothing is looked at."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What was answered."""

    status: int
    body: bytes

    def value(self) -> Any:
        return msgspec.json.decode(self.body) if self.body else None


class Client(Protocol):
    """What answers calls of the API."""

    def send(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Reply: ...

    def lines(self, path: str, query: str, headers: Mapping[str, str]) -> Iterator[bytes]:
        """The lines of an answer that is read while it is written."""

    def close(self) -> None: ...


class Caller:
    """The calls of the API as a command makes them; a problem is raised, with the exit code that fits it.

    The client is opened by the first call: what a command refuses by itself touches no database.
    """

    def __init__(self, open_client: Callable[[], Client]) -> None:
        self._open_client = open_client

    @cached_property
    def _client(self) -> Client:
        return self._open_client()

    def close(self) -> None:
        if "_client" in self.__dict__:
            self._client.close()

    @property
    def is_remote(self) -> bool:
        """Whether a server answers, and not a database directly."""
        return isinstance(self._client, HttpClient)

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Any:
        return self.ask("GET", path, query=query)

    def page(
        self, path: str, query: Mapping[str, object], keep: Callable[[Mapping[str, Any]], bool] = lambda _: True
    ) -> Any:
        """A list of `limit` items that *keep* keeps: where a page has fewer, its `next` is followed."""
        limit = int(str(query["limit"]))
        items: list[Any] = []
        cursor = query.get("cursor")
        while True:
            page = self.get(path, {**query, "limit": limit - len(items), "cursor": cursor})
            items += [one for one in page["items"] if keep(one)]
            cursor = page["next"]
            if cursor is None or len(items) >= limit:
                return {"items": items, "next": cursor}

    def post(self, path: str, body: object = None, *, headers: Mapping[str, str] | None = None) -> Any:
        return self.ask("POST", path, body=body, headers=headers)

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        text = _query(query)
        data = b"" if body is None else body if isinstance(body, bytes) else _json(body)
        sent = {"content-type": "application/json", **tenant_headers(), **(headers or {})}
        began = time.monotonic()
        reply = self._client.send(method, path, text, sent, data)
        took_ms = (time.monotonic() - began) * 1000
        detail(f"{method} {path}{'?' if text else ''}{text}  {reply.status}  {took_ms:.0f} ms")
        if reply.status >= 400:
            raise failure_of(reply)
        return reply.value()

    def scrub(self) -> None:
        """Rewrite the database file; only a command that opened it itself can."""
        work = getattr(self._client, "scrub", None)
        if work is None:
            raise CallFailed("--scrub needs --db: a server does not rewrite the file that it works on", Exit.USAGE)
        work()

    def lines(
        self, path: str, query: Mapping[str, object] | None = None, *, accept: str = "application/x-ndjson"
    ) -> Iterator[bytes]:
        """The lines of an answer, each as soon as it is there."""
        return self._client.lines(path, _query(query), {"accept": accept, **tenant_headers()})

    def endpoint_id(self, name: str) -> str:
        """The id of the endpoint that *name* means: an id, or the name of exactly one."""
        if not name:
            raise CallFailed("the endpoint is empty: give its id or its name", Exit.USAGE)
        if name.startswith("ep_"):
            return name
        found = [one["id"] for one in self.get("/api/v1/endpoints")["items"] if one["name"] == name]
        if not found:
            raise CallFailed(f"no endpoint has the name {name!r}: see `hooklane endpoints ls`", Exit.NOT_FOUND)
        if len(found) > 1:
            raise CallFailed(f"{len(found)} endpoints have the name {name!r}: use the id, see `hooklane endpoints ls`")
        return str(found[0])


def _query(query: Mapping[str, object] | None) -> str:
    return urlencode({name: str(value) for name, value in (query or {}).items() if value is not None})


def failure_of(reply: Reply) -> CallFailed:
    try:
        problem = reply.value()
        code = str(problem["code"])
        return CallFailed(str(problem["detail"]), exit_of(reply.status, code), code)
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        return CallFailed(f"the server answered {reply.status} without saying why", exit_of(reply.status))


@contextlib.contextmanager
def calling(server: str | None, db: str | None, *, create: bool = False) -> Iterator[Caller]:
    """A caller for *server* or *db*, else for what the environment or hooklane.toml names, else for this machine.

    A database that does not exist is an error unless *create*: a mistyped path must not look like an empty one.
    """
    with contextlib.closing(Caller(lambda: _client(server, db, create=create))) as caller:
        yield caller


@contextlib.contextmanager
def calling_quickly(server: str | None, db: str | None, within_s: float) -> Iterator[Caller]:
    """A caller for a question not worth a wait; a database that would have to be migrated first is left alone."""
    with contextlib.closing(Caller(lambda: _client(server, db, timeout_s=within_s, migrate=False))) as caller:
        yield caller


def _client(
    server: str | None, db: str | None, *, create: bool = False, timeout_s: float = TIMEOUT_S, migrate: bool = True
) -> Client:
    if server is not None and db is not None:
        raise CallFailed("give --server or --db, not both", Exit.USAGE)
    settings, origins = load({"db": db}, os.environ)
    db_is_named = any(one.name == "db" and one.origin != "default" for one in origins)
    server = server or (None if db else os.environ.get("HOOKLANE_SERVER"))
    if server is not None or not db_is_named:
        url = server or f"http://127.0.0.1:{settings.port or DEFAULT_PORT}"
        return HttpClient(url, settings.api_key, timeout_s)
    _must_exist(settings.db, create)
    with needing("server"):  # the remote way does without it
        from hooklane.cli.direct import DirectClient
    if not migrate:
        found, wanted = _versions(settings.db)
        if found != wanted:
            raise StoreRefused(f"the schema of {shown(settings.db)} is another version's: run `hooklane migrate`")
    return DirectClient(settings)


def _json(body: Any) -> bytes:
    """*body* as JSON, which has no word for infinity: `null` would stand for it, and mean that there is no bound."""
    if (name := _infinite(body)) is not None:
        raise CallFailed(f"{name} must be a number, and neither infinite nor nan", Exit.USAGE)
    return msgspec.json.encode(body)


def _infinite(value: Any, name: str = "a value") -> str | None:
    """The name of a number in *value* that is not finite."""
    if isinstance(value, float):
        return None if math.isfinite(value) else name
    inner = (
        value.items()
        if isinstance(value, Mapping)
        else [(name, one) for one in value]
        if isinstance(value, list)
        else ()
    )
    return next((found for each, one in inner if (found := _infinite(one, str(each))) is not None), None)


def _must_exist(db: str, create: bool) -> None:
    from hooklane.store.sqlite.database import path_of  # only commands that open a database need it

    if create:
        return
    if db.startswith("sqlite:///"):
        if not Path(path_of(db)).exists():
            raise StoreRefused(f"there is no database {shown(db)}: check the path; `hooklane serve` creates one")
    elif _versions(db)[0] == 0:
        raise StoreRefused(f"{shown(db)} has no tables of hooklane: check the name; `hooklane serve` makes them")


def _versions(db: str) -> tuple[int, int]:
    """The schema version found in *db* (0 for none) and the one wanted."""
    with needing("server"):
        from hooklane.cli.schema import versions
    return versions(db)


def address_of(url: str) -> SplitResult | None:
    """*url* taken apart; plain http unless it says otherwise. None when it is no address that can be called."""
    if not url.isascii():
        return None
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        parts.port  # noqa: B018 - it is read when asked for
        (parts.hostname or "").encode("idna")  # as it is looked up: a label may be neither empty nor too long
    except ValueError:
        return None
    return parts if parts.scheme in ("http", "https") and parts.hostname else None


def connection_to(address: SplitResult, timeout_s: float) -> http.client.HTTPConnection:
    assert address.hostname is not None
    if address.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(address.hostname, address.port, timeout=timeout_s, context=context)
    return http.client.HTTPConnection(address.hostname, address.port, timeout=timeout_s)


def why_unreachable(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


class HttpClient:
    """A server at a URL."""

    def __init__(self, url: str, api_key: Secret | None, timeout_s: float = TIMEOUT_S) -> None:
        address = address_of(url)
        if address is None:
            raise ConfigError([f"server must be a URL such as http://127.0.0.1:{DEFAULT_PORT}, got {shown(url)!r}"])
        self.url = shown(url)
        self._prefix = address.path.rstrip("/")
        self._key = api_key
        self._connection = connection_to(address, timeout_s)

    def send(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Reply:
        try:
            response = self._ask(method, path, query, headers, body)
            reply = Reply(response.status, response.read())
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None
        self._must_be_ours(response)
        return reply

    def lines(self, path: str, query: str, headers: Mapping[str, str]) -> Iterator[bytes]:
        try:
            response = self._ask("GET", path, query, headers, b"")
            self._must_be_ours(response)
            if response.status >= 400:
                raise failure_of(Reply(response.status, response.read()))
            while line := response.readline():
                yield line
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None

    def _ask(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> http.client.HTTPResponse:
        sent = dict(headers)
        if self._key is not None:
            sent["authorization"] = f"Bearer {self._key}"
        self._connection.request(method, f"{self._prefix}{path}{'?' if query else ''}{query}", body or None, sent)
        return self._connection.getresponse()

    def _must_be_ours(self, response: http.client.HTTPResponse) -> None:
        if response.getheader(MARK) is None:
            raise CallFailed(f"{self.url} is not a hooklane server (it answered {response.status})", Exit.UNREACHABLE)

    def _unreachable(self, error: Exception) -> CallFailed:
        return CallFailed(
            f"cannot reach {self.url}: {why_unreachable(error)}. Is `hooklane serve` running there?", Exit.UNREACHABLE
        )

    def close(self) -> None:
        self._connection.close()


def segment(text: str) -> str:
    """*text* as one segment of a path, `/` included."""
    if not text:
        raise CallFailed("an id, name or key is empty: give a value", Exit.USAGE)
    return quote(text, safe="")
