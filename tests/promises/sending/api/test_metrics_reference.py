"""The reference of metrics names exactly what is exposed, by the server and by an inbox."""

import re
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from tests.promises.receiving.kit import own_source, signed
from tests.promises.sending.api.conftest import Api
from tests.support.eventually import eventually
from tests.support.receiver import Answer, Sink

from hooklane import Inbox
from hooklane.telemetry.inbox_metrics import InboxMetrics

ROW = re.compile(r"^\| `(hooklane_\w+)` \| (\w+) \|([^|]*)\|", re.MULTILINE)
DOCUMENT = Path(__file__).parents[4] / "docs/reference/metrics.md"


def documented() -> dict[str, tuple[str, frozenset[str]]]:
    return {
        name: (kind, frozenset(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels in ROW.findall(DOCUMENT.read_text())
    }


def exposed(families: Any) -> dict[str, tuple[str, frozenset[str]]]:
    found = {}
    for family in families:
        if family.name.startswith("hooklane") and not family.name.endswith("_created"):  # which the client adds
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = {label for sample in family.samples for label in sample.labels if label != "le"}
            found[name] = (family.type, frozenset(labels))
    return found


async def test_every_metric_is_in_the_reference_with_its_labels_and_no_other(api: Api, sink: Sink) -> None:
    sink.react = lambda _: Answer(status=422)
    await api.endpoint(sink.url(), attempts_max=1)
    await api.publish(key="A")
    await sink.arrived(1)
    answer = await api.connection.call("GET", "/metrics")
    registry = CollectorRegistry()
    inbox = Inbox("memory://", emit=InboxMetrics(registry))
    own_source(inbox).on("*", order="none")(lambda event, tx: None)
    inbox.receive(signed("evt_1"))
    inbox.run_once()

    of_server = exposed(text_string_to_metric_families(answer.body.decode()))
    of_inbox = exposed(registry.collect())
    inbox.close()

    assert documented().keys() == of_server.keys() | of_inbox.keys()
    for name, (kind, labels) in (of_server | of_inbox).items():
        told_kind, told_labels = documented()[name]
        assert (name, kind) == (name, told_kind)
        assert labels <= told_labels, name  # one that nothing was counted for yet shows none


async def test_endpoints_that_are_deleted_for_good_are_counted_together(
    api: Api, sink: Sink, endpoint: dict[str, Any]
) -> None:
    """Each that was ever sent to kept its label, and its counts, for as long as the process lived."""
    await api.publish(key="A")
    await sink.arrived(1)
    meter, totals = api.server.services.meter, await api.server.services.totals.of_all()

    async def is_counted() -> bool:
        return endpoint["id"] in meter.total.endpoints

    await eventually(is_counted)
    meter.take()  # as the series do every few seconds
    there = await api.server.services.store.endpoints()
    before = meter.exposition(totals, {}, there)[0].decode()
    after = meter.exposition(totals, {}, [])[0].decode()

    assert f'hooklane_attempts_total{{endpoint="{endpoint["id"]}",outcome="delivered"}} 1.0' in before
    assert 'hooklane_attempts_total{endpoint="",outcome="delivered"} 1.0' in after
    assert endpoint["id"] not in after
    for histogram in ("delivery", "attempt"):
        assert f"hooklane_{histogram}_seconds_count 1.0" in after
