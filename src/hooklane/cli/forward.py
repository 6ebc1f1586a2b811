"""`hooklane dev --forward-to`: the endpoint that stands for the application under development."""

from __future__ import annotations

from dataclasses import replace

from hooklane.core.signing import SECRET_BYTES, new_secret
from hooklane.errors import UsageError
from hooklane.model.endpoint import Endpoint, EndpointState, SigningKey
from hooklane.model.ids import new_id
from hooklane.server.services import Services

NAME = "dev"


async def ensure_forward(services: Services, forward_to: str) -> Endpoint:
    """The endpoint `dev`, pointing at *forward_to*; its secret is the same after a restart."""
    url = _url(forward_to)
    services.guard.check(url)
    for old in await services.store.endpoints():
        if old.name == NAME and old.state in (EndpointState.ACTIVE, EndpointState.PAUSED, EndpointState.DISABLED):
            new = replace(old, url=url, state=EndpointState.ACTIVE)
            if new != old and not await services.store.save_endpoint(new, expect=old):
                raise UsageError("another process changed the endpoint dev just now: run the command again")
            services.endpoints_changed()
            return new
    now = services.now()
    secret = new_secret(services.chance(SECRET_BYTES))
    made = Endpoint(id=new_id("ep", now), url=url, created_at=now, name=NAME, keys=(SigningKey(secret),))
    await services.store.save_endpoint(made, expect=None)
    services.endpoints_changed()
    return made


def _url(text: str) -> str:
    """`localhost:8000/webhooks` and `8000` mean this machine, over plain http."""
    if text.isdigit():
        return f"http://127.0.0.1:{text}/"
    return text if "://" in text else f"http://{text}"
