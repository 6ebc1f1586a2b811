"""Which tenant does a call act on? That of its key; a key for all tenants names one in the header `Hooklane-Tenant`."""

from __future__ import annotations

from collections.abc import Container

from hooklane.model.event import DEFAULT_TENANT
from hooklane.server.problem import Problem

HEADER = "hooklane-tenant"


def tenant_of_call(key_tenant: str | None, header: str | None, known: Container[str]) -> str:
    """The tenant, or the Problem to answer.

    A key of one tenant learns nothing of others: whether or not the header names one that exists, it is unknown.
    """
    wanted = header if header is not None else key_tenant or DEFAULT_TENANT
    if wanted not in known or (key_tenant is not None and wanted != key_tenant):
        raise unknown_tenant()
    return wanted


def unknown_tenant() -> Problem:
    return Problem("unknown_tenant", "there is no tenant with this id")
