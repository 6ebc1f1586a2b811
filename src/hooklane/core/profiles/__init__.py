"""The providers that we know, by name."""

from __future__ import annotations

import difflib

from hooklane.core.profiles import clouds, commerce, developers, feeds, messaging, payments, standard, workplace
from hooklane.core.verify.profile import Profile
from hooklane.errors import UsageError

_FAMILIES = (standard, payments, developers, commerce, messaging, workplace, feeds, clouds)
_BY_NAME: dict[str, Profile] = {profile.name: profile for family in _FAMILIES for profile in family.PROFILES}
_ALIASES = {
    "svix": "standard_webhooks",
    "standardwebhooks": "standard_webhooks",
    "sports_stack": "sportsstack",
    "facebook": "meta",
    "instagram": "meta",
    "whatsapp": "meta",
    "twitter": "x",
    "aws_sns": "sns",
    "msgraph": "microsoft_graph",
}


def profile_names() -> list[str]:
    """All names, sorted."""
    return sorted(_BY_NAME)


def find_profile(name: str) -> Profile:
    """The profile called *name*; dashes, case and known other names are forgiven."""
    wanted = name.strip().lower().replace("-", "_").replace(" ", "_")
    found = _BY_NAME.get(_ALIASES.get(wanted, wanted))
    if found is not None:
        return found
    near = difflib.get_close_matches(wanted, [*_BY_NAME, *_ALIASES], n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}?" if near else f"known are {', '.join(profile_names())}"
    raise UsageError(f"there is no profile {name!r}: {hint}")


__all__ = ["Profile", "find_profile", "profile_names"]
