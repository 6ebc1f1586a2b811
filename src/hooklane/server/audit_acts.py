"""The line of the audit log for a call of the API: actor, action, subject, note."""

from __future__ import annotations

from dataclasses import fields

from hooklane.model.audit import Act
from hooklane.model.endpoint import Endpoint, EndpointState
from hooklane.server.call import Call


def act_of(call: Call, action: str, subject: str, note: str = "") -> Act:
    return Act(tenant=call.tenant, at=call.services.now(), actor=call.actor, action=action, subject=subject, note=note)


def endpoint_act(call: Call, old: Endpoint | None, new: Endpoint) -> Act:
    """What was done to an endpoint. Of what changed only the names: a value may be a secret."""
    if old is None:
        return act_of(call, "endpoint.created", new.id, new.url.partition("?")[0])
    changed = [field.name for field in fields(Endpoint) if getattr(old, field.name) != getattr(new, field.name)]
    if new.state is not old.state:
        verbs = {
            EndpointState.ACTIVE: "resumed",
            EndpointState.PAUSED: "paused",
            EndpointState.DRAINING: "deleted",
            EndpointState.CANCELLING: "deleted",
        }
        note = {EndpointState.DRAINING: "backlog=drain", EndpointState.CANCELLING: "backlog=cancel"}
        return act_of(call, f"endpoint.{verbs.get(new.state, new.state)}", new.id, note.get(new.state, ""))
    if changed == ["keys"]:
        return act_of(call, "endpoint.rotated", new.id)
    return act_of(call, "endpoint.changed", new.id, ", ".join(changed))
