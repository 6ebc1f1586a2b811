"""Which route belongs to a target? Found by identity, because that costs nothing, or else by equality."""

from __future__ import annotations

from hooklane.model.exchange import Target
from hooklane.sender.egress import EgressGuard
from hooklane.sender.transport.limits import AGE_S_MAX
from hooklane.sender.transport.route import Route

_PRUNE_EVERY = 256


class Routes:
    """The routes in use. One that was not used for as long as a connection may live is forgotten."""

    def __init__(self, guard: EgressGuard, user_agent: str) -> None:
        self._guard = guard
        self._user_agent = user_agent
        self._by_id: dict[int, Route] = {}
        self._by_target: dict[Target, Route] = {}
        self._made = 0

    def of(self, target: Target, now: float) -> Route:
        """The route of *target*, made on first sight."""
        route = self._by_id.get(id(target))
        # An id is only worth something while its object lives, and a route keeps its target alive.
        if route is None:
            route = self._by_target.get(target) or self._make(target, now)
        route.used_at = now
        return route

    def _make(self, target: Target, now: float) -> Route:
        self._made += 1
        if self._made % _PRUNE_EVERY == 0:
            self._prune(now)
        route = self._by_id[id(target)] = self._by_target[target] = Route(target, self._guard, self._user_agent)
        return route

    def _prune(self, now: float) -> None:
        for route in [old for old in self._by_target.values() if old.used_at < now - AGE_S_MAX]:
            del self._by_target[route.target]
            del self._by_id[id(route.target)]
