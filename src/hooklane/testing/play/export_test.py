"""A trace as a pytest test for a user's own handler: it needs no edit, only the fixture that names the receiver."""

from __future__ import annotations

from hooklane.testing.play.arrivals import Arrival, arrivals
from hooklane.testing.play.scenarios import BY_NAME
from hooklane.testing.play.trace import Trace

_TEXT = '''"""{title}: {about}. Exported by `hooklane simulate {name} --seed {seed}{more}`.

The copies below reach your receiver in the order in which hooklane's simulator delivered them. Tell the test which
receiver that is, in the conftest.py beside it:

    @pytest.fixture
    def receiver(webhooks):
        inbox = Inbox("memory://", mode="inline")          # yours; or any function of a request that answers a status
        source = inbox.source("hooklane", secrets=[webhooks.secret("hooklane")])
        source.on("*")(your_handler)                       # which does its work in `tx`
        return inbox

    @pytest.fixture
    def applied(receiver):
        return lambda: [...]                               # (key, seq) of each effect that your handler had, in order
"""

import pytest
from hooklane.testing import Webhook, Webhooks

# Key, seq, attempt, type, data. What stands in one line arrives at the same moment.
ARRIVALS = [
{arrivals}
]
ACKNOWLEDGED = [{acknowledged}]


@pytest.fixture
def sent(webhooks: Webhooks, receiver) -> dict[tuple[str, int], Webhook]:
    """Each event once, signed as hooklane's sender signs."""
    if callable(receiver):
        webhooks.use(receiver, secrets={{"hooklane": webhooks.secret("hooklane")}})
    else:
        webhooks.use(receiver)
    return {{
        (key, seq): webhooks.event("hooklane", type, data, id=f"evt_{{key}}_{{seq}}", key=key, seq=seq)
        for group in ARRIVALS
        for key, seq, _, type, data in group
    }}


def test_{function}(webhooks: Webhooks, sent: dict[tuple[str, int], Webhook], applied) -> None:
    for group in ARRIVALS:
        copies = [
            webhooks.retry(sent[key, seq]) if attempt > 1 else sent[key, seq] for key, seq, attempt, _, _ in group
        ]
        webhooks.deliver(copies, concurrent=len(copies) > 1)

    effects = [tuple(one) for one in applied()]
    assert sorted(set(effects)) == sorted(effects), "an event was applied twice"
    assert set(ACKNOWLEDGED) <= set(effects), "an event was acknowledged and never applied"
    for key in {{key for key, _ in effects}}:
        seqs = [seq for one, seq in effects if one == key]
        assert seqs == sorted(seqs), f"the events of {{key}} were applied out of order"

    forged = webhooks.tampered(sent[{first}])
    webhooks.deliver(forged)
    assert webhooks.statuses[0] >= 400, "a copy that was changed on its way was accepted"
    assert [tuple(one) for one in applied()] == effects, "a copy that was changed on its way was applied"
'''


def export_test(trace: Trace, *, more: str = "") -> str:
    """The text of a test file; *more* are the options that made the trace besides its scenario and seed."""
    scenario = BY_NAME[trace.scenario]
    groups = arrivals(trace)
    acked = sorted({(one.key, one.seq) for one in trace.steps if one.kind == "acked"})
    first = groups[0][0] if groups else None
    return _TEXT.format(
        title=scenario.title,
        about=scenario.about,
        name=trace.scenario,
        seed=trace.seed,
        more=more,
        arrivals="\n".join(f"    [{', '.join(map(_literal, group))}]," for group in groups),
        acknowledged=", ".join(f"({str(key)!r}, {seq})" for key, seq in acked),
        function=trace.scenario.replace("-", "_"),
        first=f"{first.key!r}, {first.seq}" if first else "'A', 1",
    )


def _literal(one: Arrival) -> str:
    return repr((one.key, one.seq, one.attempt, one.type, one.data))
