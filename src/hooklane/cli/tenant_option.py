"""`--tenant` / `HOOKLANE_TENANT`: for which tenant a command acts, wherever it asks a server or a database."""

from __future__ import annotations

import os

from hooklane.cli.exits import CallFailed, Exit

_chosen: list[str] = []
"""What `--tenant` said last, in this process."""


def tenant_headers() -> dict[str, str]:
    """The header that names the tenant; none for what the key means by itself."""
    tenant = _chosen[-1] if _chosen else os.environ.get("HOOKLANE_TENANT")
    if not tenant:
        return {}
    from hooklane.core.tenant import ID_RULE, is_tenant_id

    if not is_tenant_id(tenant):
        raise CallFailed(f"no tenant can have the id {tenant[:80]!r}: {ID_RULE}", Exit.USAGE)
    return {"hooklane-tenant": tenant}


def choose_tenant(tenant: str | None) -> None:
    """What `--tenant` says, or that it was not given."""
    _chosen[:] = [] if tenant is None else [tenant]
