"""The customer portal: a link that opens the page for one tenant, for a while."""

from __future__ import annotations

from typing import Annotated

import msgspec

from hooklane.config import is_loopback
from hooklane.model.api_key import SessionKind
from hooklane.model.clock import rfc3339
from hooklane.server.call import Call, Response, Routes, answer
from hooklane.server.caller import customer_of, tenant_of_call
from hooklane.server.problem import Problem
from hooklane.server.schema_words import told
from hooklane.server.shapes_of_access import PortalLink

TTL_S_DEFAULT = 3_600
TTL_S_MAX = 24 * 3_600
TTL_S_MIN = 60


class NewPortalLink(msgspec.Struct, forbid_unknown_fields=True):
    """How long the link and the session behind it last."""

    ttl_s: Annotated[int, told({"minimum": TTL_S_MIN, "maximum": TTL_S_MAX})] = TTL_S_DEFAULT


routes = Routes("tenants", "/api/v1/tenants/{tenant}/portal")


@routes.post(
    "",
    "A link that opens the page for this one tenant: its endpoints, events, attempts and replay.",
    status=201,
    takes=NewPortalLink,
    tells_secret=True,
    answers=PortalLink,
)
async def create(call: Call) -> Response:
    """What is secret in the link stands behind `#`: no server, proxy or log of ours ever sees it there."""
    services, tenant = call.services, call.params["tenant"]
    ttl_s = (call.read(NewPortalLink) if call.body else NewPortalLink()).ttl_s
    if not TTL_S_MIN <= ttl_s <= TTL_S_MAX:
        raise Problem("invalid_body", f"ttl_s must be from {TTL_S_MIN} to {TTL_S_MAX}, got {ttl_s}")
    if call.auth is None or call.auth.is_open:
        raise Problem("wrong_state", "a portal needs a server that asks for a key: set HOOKLANE_API_KEY")
    root = _root(call)
    made_with = call.caller.key_id or call.auth.static_id
    ttl_ms = ttl_s * 1_000
    if (ends_at := services.keys.expiry_of(call.caller.key_id)) is not None:
        ttl_ms = min(ttl_ms, ends_at - services.now())
    await services.tenants.look_for(tenant)
    call.tenant = tenant_of_call(call.caller.tenant, tenant, services.tenants)
    token, link = await services.sessions.open(
        customer_of(tenant), SessionKind.LINK, made_with, ttl_ms=ttl_ms, act=call.act("portal.link_made", tenant)
    )
    return answer({"url": f"{root}/portal#{token}", "expires_at": rfc3339(link.expires_at)}, 201)


def _root(call: Call) -> str:
    """Where the customer's browser finds this server."""
    if call.services.settings.public_url is not None:
        return call.services.settings.public_url
    host = call.headers.get("host", "")
    if not is_loopback(host.rpartition(":")[0].strip("[]") or host):
        # A Host header is what the caller says it is: a link that is sent to a customer must not rest on it.
        raise Problem("wrong_state", "set HOOKLANE_PUBLIC_URL to the address at which browsers find this server")
    return f"http://{host}"
