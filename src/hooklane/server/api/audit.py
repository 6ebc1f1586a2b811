"""The audit log and the books: who did what, whether that record is whole, and whether the ledger adds up."""

from __future__ import annotations

import re

from hooklane.core.audit import ChainCheck
from hooklane.model.api_key import Scope
from hooklane.model.audit import AuditLine, Link
from hooklane.server import views
from hooklane.server.api.endpoints import find
from hooklane.server.call import PAGING, Call, Param, Response, Routes, answer, pattern_of
from hooklane.server.problem import Problem
from hooklane.server.schema_words import TIME
from hooklane.server.shapes import ListShape
from hooklane.server.shapes_of_recovery import AuditShape, Books, Chain, LedgerLine, Revealed
from hooklane.store.recovery import AuditFilter

CHAIN_PAGE = 2_000

_LINK = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})\Z")


routes = Routes("audit", "/api/v1")


@routes.get(
    "/audit",
    "Who did what, newest first.",
    query=(
        Param("actor", "exact actor"),
        Param("action", "such as dead_letter.skipped or endpoint.*, with `*` for anything"),
        Param("subject", "exact subject: the id of a dead letter, an endpoint, a job"),
        Param("after", "at or after this time", TIME),
        Param("before", "before this time", TIME),
        *PAGING,
    ),
    answers=ListShape[AuditShape],
)
async def search(call: Call) -> Response:
    subject = call.query.get("subject")
    wanted = AuditFilter(
        actor=call.query.get("actor"),
        action=pattern_of(call.query.get("action"), "action"),
        subjects=() if subject is None else (subject,),
        after=call.instant("after"),
        before=call.instant("before"),
    )
    page = await call.services.store.audit(call.tenant, wanted, call.cursor("audit"), call.limit())
    return answer(call.listed("audit", page, map(_line, page.items)))


@routes.get(
    "/audit/verify",
    "Whether the log is as it was written; the first broken line otherwise.",
    query=(
        Param(
            "expect",
            "`last` of an earlier check, kept elsewhere",
            {"type": "string", "pattern": "^[0-9]{1,18}:[0-9a-f]{64}$"},
        ),
    ),
    answers=Chain,
    of_server=True,
)
async def verify(call: Call) -> Response:
    """Check the whole chain; the first line that does not fit is named."""
    store = call.services.store
    chain = await store.audit_chain(0, CHAIN_PAGE)
    check = ChainCheck(chain.anchor, _link(call.query.get("expect")))
    while chain.lines and check.broken is None:
        check.take(chain.lines)
        chain = await store.audit_chain(chain.lines[-1].n, CHAIN_PAGE)
    broken = check.finish(chain.head)
    return answer(
        {
            "whole": broken is None,
            "lines": check.lines,
            "pruned_to": None if check.anchor is None else check.anchor.n,
            "last": None if check.last.n == 0 else f"{check.last.n}:{check.last.seal.hex()}",
            "broken": None if broken is None else {"line": broken.n, "why": broken.why},
        }
    )


@routes.post(
    "/endpoints/{id}/reveal",
    "Show the endpoint's secrets once more; this is on record.",
    scope=Scope.ADMIN,
    answers=Revealed,
    tells_secret=True,
    tag="endpoints",
)
async def reveal(call: Call) -> Response:
    """Show the secrets of an endpoint, its URL and headers whole; on record before it is answered."""
    endpoint = await find(call)
    await call.services.store.record(call.act("secret.shown", endpoint.id))
    return answer(
        {
            "id": endpoint.id,
            "secrets": [key.secret for key in endpoint.keys],
            "url": endpoint.url,
            "headers": dict(endpoint.headers),
        }
    )


@routes.get("/ledger", "Every endpoint's ledger, counted from the rows and compared with the counters.", answers=Books)
async def books(call: Call) -> Response:
    """Accepted = delivered + queued + … + cancelled."""
    lines = [line for line in await call.services.store.check_ledger() if line.tenant == call.tenant]
    items = [views.filled(LedgerLine, line, balanced=line.is_balanced) for line in lines]
    return answer({"balanced": all(line.is_balanced for line in lines), "items": items})


def _line(line: AuditLine) -> views.View:
    return views.filled(AuditShape, line.act, n=line.n, seal=line.seal.hex())


def _link(text: str | None) -> Link | None:
    if text is None:
        return None
    found = _LINK.match(text)
    if found is None:
        raise Problem(
            "invalid_parameter",
            "expect must be what an earlier check gave as `last`: a line number, a colon and its hash",
        )
    return Link(int(found[1]), bytes.fromhex(found[2]))
