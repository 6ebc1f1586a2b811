"""Secrets at rest: with which keys they are sealed, and sealing them anew, a bounded batch a call."""

from __future__ import annotations

from hooklane.model.api_key import Scope
from hooklane.server.call import Call, Response, Routes, answer
from hooklane.server.problem import Problem
from hooklane.server.shapes_of_access import Resealed, Seals
from hooklane.store.sealed_outbox import PLAIN, SealedOutbox

BATCH = 100


routes = Routes("secrets", "/api/v1/secrets")


@routes.get("", "Which keys seal the secrets of endpoints.", scope=Scope.READ, answers=Seals)
async def show(call: Call) -> Response:
    store = _sealed(call)
    counts = await store.seals()
    sealed = {id: many for id, many in counts.items() if id != PLAIN}
    return answer({"key": store.seal_key, "endpoints": sealed, "plain": counts[PLAIN]})


@routes.post("/rotate", "Seal up to 100 endpoints with the newest key; again until `left` is 0.", answers=Resealed)
async def rotate(call: Call) -> Response:
    """One batch; call it again while `left` is not 0. What is done is done, however the next call ends."""
    store = _sealed(call)
    if store.seal_key is None:
        raise Problem("wrong_state", "there is no key to seal with: set HOOKLANE_SEAL_KEY or HOOKLANE_SEAL_KEY_FILE")
    done = await store.reseal(BATCH, call.act("secrets.rotated", store.seal_key))
    if done:
        call.services.endpoints_changed()
    counts = await store.seals()
    left = sum(many for id, many in counts.items() if id != store.seal_key)
    return answer({"key": store.seal_key, "sealed": done, "left": left})


def _sealed(call: Call) -> SealedOutbox:
    store = call.services.store
    assert isinstance(store, SealedOutbox), "every store of a process is opened with its seal keys"
    return store
