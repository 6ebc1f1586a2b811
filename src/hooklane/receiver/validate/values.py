"""Are the values sound that an application gives? What is wrong is said when it is given, not when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any

from hooklane.core.admission.breaker import BreakerPolicy
from hooklane.core.admission.failures import RetryPolicy
from hooklane.core.fanout import STARS_MAX
from hooklane.core.verify.messages import TEXT_MAX
from hooklane.core.verify.profile import Profile
from hooklane.model.whole import is_whole

_WHOLE = ("retention_ms", "tombstone_ms", "body_bytes_max")
_WHOLE_OR_NONE = ("payload_ms", "event_age_ms_max")
_KINDS: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "secrets": ((Iterable, None), "a secret or a list of them"),
    "profile": ((str, Profile, None), "the name of a profile or a Profile"),
    # Not what is merely true: the text "false" of an environment would permit it.
    "unsafe": ((bool,), "True or False"),
    "learn": ((bool, Callable), "True, False or a function that stores a secret"),
    "url": ((str, None), "the URL given to the provider"),
    "verify_token": ((str, None), "text"),
    "certificates": ((Callable, None), "a function that gives the certificates behind a URL"),
    "roots": ((bytes, None), "certificates in PEM, as bytes"),
}


def is_type_pattern(value: Any) -> bool:
    """Whether *value* can be a pattern of received types, which are the provider's words (`orders/create`, `repo:push`,
    `Push Hook`): whatever a message can hold as its type, and some `*`, each for any run of it."""
    return is_name(value) and value.count("*") <= STARS_MAX


def is_name(value: Any) -> bool:
    """Whether every store can keep something under *value*."""
    return isinstance(value, str) and 0 < len(value) <= TEXT_MAX and value.isprintable()


def kind_problems(name: str, given: Mapping[str, Any]) -> list[str]:
    """What of *given* to a source is no value of its kind."""
    problems = []
    for word, (kinds, wanted) in _KINDS.items():
        value = given[word]
        if not any(value is None if kind is None else isinstance(value, kind) for kind in kinds):
            problems.append(f"{name}: {word} is {wanted}, got {type(value).__name__}")  # it may be a secret
    return problems


def function_problems(given: Mapping[str, Any]) -> list[str]:
    """Which of *given* cannot be called."""
    return [f"{name} is a function, got {value!r}" for name, value in given.items() if not callable(value)]


def rule_problems(name: str, rules: Mapping[str, Any], known: Mapping[str, Any]) -> list[str]:
    """What is wrong with the *rules* of a source; *known* are the names that there are."""
    unknown = [rule for rule in rules if rule not in known]
    problems = [f"{name}: there is no rule {rule!r}: known are {', '.join(sorted(known))}" for rule in unknown]
    for rule in (*_WHOLE, *_WHOLE_OR_NONE):
        value = rules.get(rule, known[rule])
        if not is_whole(value) and not (value is None and rule in _WHOLE_OR_NONE):
            problems.append(f"{name}: {rule} is a whole number of at least 1, got {value!r}")
    rate = rules.get("rate_limit")
    if rate is not None and not (isinstance(rate, int | float) and not isinstance(rate, bool) and 0 < rate < inf):
        problems.append(f"{name}: rate_limit is a positive number of requests a second, got {rate!r}")
    return problems + policy_problems(name, rules)


def policy_problems(name: str, rules: Mapping[str, Any]) -> list[str]:
    """What is wrong with how failures are treated."""
    problems = []
    for rule, kind in (("retry", RetryPolicy), ("breaker", BreakerPolicy)):
        value = rules.get(rule)
        if value is not None and not isinstance(value, kind):
            problems.append(f"{name}: {rule} is a {kind.__name__}(…), got {value!r}")
    return problems
