"""A pass says that a holder of the server's own key lets a person in as a customer of one tenant.

A dashboard that is mounted in portal mode makes one for each request. It lives within the process: who could make one
holds the server's key, and may do everything anyway.
"""

from __future__ import annotations

import hashlib
import hmac

_BEGIN = "portal."


def portal_pass(api_key: str, tenant: str) -> str:
    seal = hmac.new(api_key.encode(), f"{_BEGIN}{tenant}".encode(), hashlib.sha256).hexdigest()
    return f"{_BEGIN}{seal}.{tenant}"


def tenant_of_pass(api_key: str, text: str) -> str | None:
    """The tenant that *text* is a pass for; None where it is none."""
    if not text.startswith(_BEGIN):
        return None
    tenant = text[len(_BEGIN) :].partition(".")[2]
    expected = portal_pass(api_key, tenant).encode("utf-8", "surrogateescape")
    is_real = hmac.compare_digest(expected, text.encode("utf-8", "surrogateescape"))
    return tenant if is_real else None
