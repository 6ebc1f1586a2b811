"""Every store of the inbox tells `hooklane reconcile` the same: what is applied, what is owed, what is not there."""

from pathlib import Path
from typing import Any

import pytest
from tests.promises.receiving.kit import own_source, signed

from hooklane import Inbox, Reject
from hooklane.cli.inbox import opened
from hooklane.cli.reconcile_sides import Delivered, StoreSide


@pytest.fixture(params=["sqlite", "postgres", "redis", "dynamodb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/inbox.db"
    fixture = {"postgres": "postgres_url", "redis": "redis_url", "dynamodb": "dynamodb_inbox_url"}[request.param]
    return str(request.getfixturevalue(fixture))


def test_a_receiver_tells_by_its_store_what_it_has_applied_and_what_it_owes(url: str):
    inbox = Inbox(url, mode="durable")

    @own_source(inbox).on("*", name="apply")
    def apply(event: Any, tx: Any) -> None:
        if event.seq == 2:
            raise Reject("the sku is unknown")

    for seq in (1, 2, 3):
        assert inbox.receive(signed(f"evt_{seq}", key="order:1", seq=seq)).status < 300
    while inbox.run_once():
        pass
    inbox.close()

    with opened(url) as looked_at:
        side = StoreSide(looked_at, "hooklane")
        sent = [Delivered("order:1", seq, f"evt_{seq}") for seq in (1, 2, 3, 4)]

        assert side.sources() == {"hooklane"}
        assert side.statuses(sent) == {"evt_1": "completed", "evt_2": "dead", "evt_3": "held"}
        assert side.applied("order:1") == 1
        assert side.applied("order:2") is None
        owed = [(key, row.event_id, row.seq, row.status) for key, row in side.owed(None, 100)]
        assert sorted(owed) == [("order:1", "evt_2", 2, "dead"), ("order:1", "evt_3", 3, "held")]
        assert [row.event_id for _, row in side.owed("order:2", 100)] == []
