"""A source: a provider with its profile and secrets, and the handlers that its events are for."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, TypedDict, TypeVar

from hooklane.batching.locks import open_in_forks
from hooklane.core.admission.breaker import BreakerPolicy
from hooklane.core.admission.failures import RetryPolicy
from hooklane.core.admission.rate import Bucket
from hooklane.core.admission.retention import RETENTION_MS, RETENTION_MS_MIN, TOMBSTONE_MS
from hooklane.core.fanout import STARS_MAX, matches
from hooklane.core.profiles import find_profile
from hooklane.core.verify.custom import places_in
from hooklane.core.verify.handshake import Handshake
from hooklane.core.verify.messages import TEXT_MAX, derived_id, storable
from hooklane.core.verify.open_request import Messages, open_request, unsigned
from hooklane.core.verify.places import Place, as_text
from hooklane.core.verify.profile import Dedup, Profile
from hooklane.core.verify.ring import Keyring, keyring
from hooklane.errors import ConfigError, UsageError
from hooklane.model.clock import Instant
from hooklane.model.message import DEFAULT_ACCOUNT, Message, Request
from hooklane.receiver.event import Event
from hooklane.receiver.headers import KeptHeaders
from hooklane.receiver.order import InSequence, Order, OrderWord, as_order, order_of
from hooklane.receiver.validate import fits_store
from hooklane.receiver.validate.values import (
    is_name,
    is_type_pattern,
    kind_problems,
    policy_problems,
    rule_problems,
)
from hooklane.store.inbox import Capabilities

Function = TypeVar("Function", bound=Callable[[Event, Any], object])
"""A handler: `(event, tx)`, sync or async. Its *tx* is the driver's own connection, of whichever class that is."""
Account = str | Callable[[Message], str]
Where = str | Place | Sequence[str | Place]
KeepSecret = Callable[[str], Any]
Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A function `(event, tx)` and the rules under which it runs; *name* is what its statuses are kept under."""

    name: str
    source: str
    fn: Callable[..., Any]
    patterns: tuple[str, ...]
    order: Order
    retry: RetryPolicy
    breaker: BreakerPolicy | None
    is_async: bool = False
    data_path: str = ""
    """Where the profile of its source has an event's own content."""

    def event(
        self,
        message: Message,
        received_at: Instant,
        *,
        can_send: bool,
        attempt: int = 1,
        variant: str = "",
        headers: Headers = (),
    ) -> Event:
        """*message* as this handler is given it."""
        return Event(
            message,
            attempt=attempt,
            received_at=received_at,
            handler=self.name,
            variant=variant,
            headers=headers,
            data_path=self.data_path,
            can_send=can_send,
        )

    def wants(self, type: str) -> bool:
        """Whether an event of this type is for it."""
        return _matches(self.patterns, type)


_matches = lru_cache(maxsize=4096)(matches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How the messages of a source are kept."""

    dedup: Dedup
    account: Account | None = None
    event_age_ms_max: int | None = None
    retention_ms: int = RETENTION_MS
    payload_ms: int | None = None
    tombstone_ms: int = TOMBSTONE_MS
    body_bytes_max: int = 1_048_576
    rate_limit: float | None = None
    """Requests a second that this process takes, in bursts of twice as many; more are told 429."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    breaker: BreakerPolicy | None = field(default_factory=BreakerPolicy)


class RulesGiven(TypedDict, total=False):
    """The fields of `Rules` as `inbox.source` takes them."""

    event_age_ms_max: int | None
    retention_ms: int
    payload_ms: int | None
    tombstone_ms: int
    body_bytes_max: int
    rate_limit: float | None
    retry: RetryPolicy
    breaker: BreakerPolicy | None


class Source:
    """Made by `inbox.source(…)`; `@source.on("type.*")` registers a handler."""

    def __init__(
        self,
        name: str,
        *,
        profile: Profile,
        keys: Keyring | None,
        order: Order,
        rules: Rules,
    ) -> None:
        self.name = name
        self.profile = profile
        self.keys = keys
        self.order = order
        self.rules = rules
        self.handlers: dict[str, Handler] = {}
        self.store: Capabilities | None = None
        """What the store of its inbox can do; handlers that ask for more are refused."""
        self.by_state = rules.dedup is Dedup.STATE_TOKEN
        """Whether an id stands for the state that an entity is in."""
        self._is_derived = rules.dedup is Dedup.DERIVED
        rate = rules.rate_limit
        self._bucket = None if rate is None else Bucket(rate, max(1.0, 2 * rate))
        self._bucket_lock = open_in_forks(threading.Lock())
        self.kept_headers = KeptHeaders(profile)
        self.keep_secret: KeepSecret | None = None
        """Given a secret that the provider told us in its first request, to store where the next start finds it."""
        self._learning = open_in_forks(threading.Lock())

    @property
    def grade(self) -> str:
        """How much an accepted request proves: `signed` … `unsafe`."""
        return "unsafe" if self.keys is None else str(self.keys.grade)

    def on(
        self,
        *patterns: str,
        order: Order | OrderWord | None = None,
        name: str | None = None,
        retry: RetryPolicy | None = None,
        breaker: BreakerPolicy | None = None,
    ) -> Callable[[Function], Function]:
        """Register the decorated function `(event, tx)`, sync or async, for the types that match.

        Its *name* (the function's own by default) is what its statuses are stored under: keep it over refactorings.
        """
        if any(callable(pattern) for pattern in patterns):
            raise UsageError(f'{self.name}: say for which types, as in @source.on("order.*"), or @source.on() for all')
        wrong = [pattern for pattern in patterns if not is_type_pattern(pattern)]
        problems = [
            f"{self.name}: {pattern!r} is not a pattern of event types, at most {STARS_MAX} *" for pattern in wrong
        ]
        problems += policy_problems(self.name, {"retry": retry, "breaker": breaker})
        if name is not None and not is_name(name):
            problems.append(f"{self.name}: the name of a handler is 1-{TEXT_MAX} printable characters, got {name!r}")
        if problems:
            raise ConfigError(problems)

        def register(fn: Function) -> Function:
            called = name or getattr(fn, "__qualname__", type(fn).__name__).replace(".<locals>", "")
            if called in self.handlers:
                raise UsageError(f"{self.name}: there is a handler {called!r} already; give one of them name=…")
            _check_arguments(fn, called)
            if _is_generator(fn):
                raise UsageError(f"{called} has a yield in it, so that calling it would do nothing: it must not yield")
            asked = as_order(order, self.order)
            is_async = is_async_function(fn)
            fetch = asked.resync if isinstance(asked, InSequence) else None
            if fetch is not None and is_async_function(fetch) != is_async:
                kind = "async" if is_async else "sync"
                raise ConfigError(
                    [f"{self.name}: {called} is {kind}, so resync must be {kind} too: both get the same tx"]
                )
            if self.store is not None:
                label = f"{self.name}: {called}"
                misfit = fits_store.order_problems(label, asked, self.store)
                misfit += fits_store.kind_problems(label, is_async, self.store)
                if misfit:
                    raise ConfigError(misfit)
            self.handlers[called] = Handler(
                name=called,
                source=self.name,
                fn=fn,
                patterns=patterns,
                order=asked,
                retry=retry or self.rules.retry,
                breaker=breaker or self.rules.breaker,
                is_async=is_async,
                data_path=self.profile.data,
            )
            return fn

        return register

    def open_request(self, request: Request, now: Instant) -> Messages | Handshake:
        """What is in *request*; `VerificationError` unless it proves where it comes from."""
        if self.keys is None:
            return unsigned(request, self.profile, now, source=self.name)
        return open_request(request, self.profile, self.keys, now, source=self.name)

    def learn(self, secret: str) -> bool:
        """Verify by *secret* from now on; False when the source has come to have another one meanwhile."""
        with self._learning:  # any sender can offer one: the first that came is kept
            keys = self.keys
            if keys is None or keys.held:
                return keys is not None and any(held.text == secret for held in keys.held)
            if self.keep_secret is not None:
                self.keep_secret(secret)
            learned = keyring(self.profile, [secret])
            self.keys = replace(keys, held=learned.held, grade=learned.grade)
        return True

    def has_no_room_for(self, now: Instant) -> int | None:
        """After how many seconds the source takes a request again; None when it does now."""
        if self._bucket is None:
            return None
        with self._bucket_lock:
            return self._bucket.take(now)

    def scoped(self, message: Message) -> Message:
        """*message* under the account and the id that this source's rules give it."""
        rules = self.rules
        if self._is_derived:
            # Hints say only that something changed: each counts, also one that says the same again.
            id = message.event_id if self.profile.hints else derived_id(self.name, message.fingerprint)
            message = replace(message, event_id=id, id_signed=True)
        if rules.account is None:
            return message
        account = rules.account if isinstance(rules.account, str) else _account_text(rules.account(message))
        return message if account == message.account else replace(message, account=account)


def make_source(
    name: str,
    *,
    secrets: Sequence[str] | str | None,
    profile: str | Profile | None,
    order: Order | OrderWord | None,
    unsafe: bool,
    dedup: str | None,
    places: Mapping[str, Where | None],
    rules: Mapping[str, Any],
    keys: Mapping[str, Any],
) -> Source:
    """A source, or a `ConfigError` that says what is wrong with it."""
    # Dots alone are taken out of a URL by clients: such a source would never hear of anything.
    if (
        not isinstance(name, str)
        or not name.strip(".")
        or not all(letter.isalnum() or letter in "_.-" for letter in name)
        or len(name) > 64
    ):
        raise ConfigError([f"the name of a source has 1-64 letters, digits, _ . or -, got {name!r}"])
    if wrong := kind_problems(name, {"secrets": secrets, "profile": profile, "unsafe": unsafe, **keys}):
        raise ConfigError(wrong)
    found = profile if isinstance(profile, Profile) else find_profile(profile or name)
    try:
        given: dict[str, Any] = {
            field: places_in(where, found.schemes) for field, where in places.items() if where is not None
        }
    except UsageError as problem:
        raise ConfigError([f"{name}: {problem}"]) from None
    if "id" in given and found.dedup is Dedup.DERIVED:
        given["dedup"] = Dedup.EVENT_ID  # who says where the id is wants events to be told apart by it
    found = replace(found, **given)
    secrets = [secrets] if isinstance(secrets, str) else list(secrets or ())
    ring: Keyring | None = None
    learn = keys.get("learn")
    if secrets or learn:
        ring = keyring(found, secrets, **{**keys, "learn": bool(learn)})
    elif not unsafe:
        needs = "a source needs secrets=[…]; without one any sender is believed (unsafe=True permits that)"
        raise ConfigError([f"{name}: {needs}"])
    if dedup is not None and dedup not in list(Dedup):
        raise ConfigError([f"{name}: dedup must be one of {', '.join(Dedup)}, got {dedup!r}"])
    account: object = rules.get("account")
    if account is not None and not isinstance(account, str) and not callable(account):
        raise ConfigError([f"{name}: account is a name or a function of the message, got {account!r}"])
    problems = rule_problems(name, rules, {each.name: each.default for each in fields(Rules)})
    if problems:
        raise ConfigError(problems)
    kept = Rules(dedup=Dedup(dedup or found.dedup), **rules)
    if kept.retention_ms < RETENTION_MS_MIN:
        raise ConfigError([f"{name}: retention is the dedup window, at least 7 days, got {kept.retention_ms} ms"])
    if kept.event_age_ms_max is not None and kept.event_age_ms_max >= kept.retention_ms:
        raise ConfigError([f"{name}: event_age_ms_max must be less than retention_ms, or an old copy passes as new"])
    made = Source(name, profile=found, keys=ring, order=as_order(order, order_of(found.order)), rules=kept)
    made.keep_secret = learn if callable(learn) else None
    return made


def is_async_function(fn: Callable[..., Any]) -> bool:
    """Whether calling *fn* gives something to await."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


def _is_generator(fn: Callable[..., Any]) -> bool:
    """Whether calling *fn* gives something to iterate over, and does nothing else."""
    kinds = (fn, getattr(fn, "__call__", None))  # noqa: B004
    return any(inspect.isgeneratorfunction(kind) or inspect.isasyncgenfunction(kind) for kind in kinds)


def _account_text(account: Any) -> str:
    """What the application's function answered as every store can hold it; nothing is the default account."""
    if account is None or account == "":
        return DEFAULT_ACCOUNT
    text = storable(as_text(account))
    if text is None:
        raise TypeError(f"the function account=… must give text, got a {type(account).__name__}")
    return text


def _check_arguments(fn: Callable[..., Any], name: str) -> None:
    try:
        inspect.signature(fn).bind(None, None)
    except TypeError as error:
        raise UsageError(f"a handler is called with (event, tx), which {name} does not accept: {error}") from None
    except ValueError:
        return  # a built-in without a signature
