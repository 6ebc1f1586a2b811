"""Which texts can be a tenant's id, and what can its settings be?"""

from __future__ import annotations

import re

from hooklane.model.tenant import Tenant

ID_RULE = "1 to 64 of A-Z a-z 0-9 _ . -, the first a letter or a digit"
NAME_CHARS_MAX = 200
RATE_MIN, RATE_MAX = 0.001, 1_000_000.0
"""Events a second; one in a quarter of an hour at least."""
COUNT_MAX = 2**53

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")


def is_tenant_id(text: object) -> bool:
    """Whether *text* can be a tenant's id: it fits a header, a path and a shell as it is."""
    return isinstance(text, str) and _ID.match(text) is not None


def faults_of(tenant: Tenant) -> list[tuple[str, str]]:
    """What is wrong with a tenant's settings, as (field, what was expected)."""
    faults: list[tuple[str, str]] = []
    if not is_tenant_id(tenant.id):
        faults.append(("id", f"{ID_RULE}; got {tenant.id[:80]!r}"))
    if len(tenant.name) > NAME_CHARS_MAX or not tenant.name.isprintable():
        faults.append(("name", f"at most {NAME_CHARS_MAX} printable characters"))
    quota = tenant.quota
    rate = quota.events_per_s
    if rate is not None and not RATE_MIN <= rate <= RATE_MAX:
        faults.append(("quota.events_per_s", f"a number from {RATE_MIN:g} to {RATE_MAX:g}; null for no bound"))
    for name in ("endpoints", "bytes"):
        most = getattr(quota, name)
        if most is not None and not 0 <= most <= COUNT_MAX:
            faults.append((f"quota.{name}", "a number from 0 on; null for no bound"))
    return faults
