"""The scenarios by name: which events are published, what happens to which copy, and a question to ask before."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from hooklane.testing.play.trace import Faults


class Mishap(StrEnum):
    """What befalls one attempt, for sure."""

    REQUEST_LOST = "request_lost"
    ACK_LOST = "ack_lost"
    DOUBLED = "doubled"  # the second copy comes right behind the first
    DOUBLED_LATE = "doubled_late"  # it comes when the key has moved on
    UNAVAILABLE = "unavailable"  # 503, and nothing was done
    BAD_GATEWAY = "bad_gateway"  # the work was done, and a proxy answered 502
    STALLED = "stalled"  # its worker stands still before it sends, longer than its lease


@dataclass(frozen=True, slots=True)
class Published:
    """An event of a story: the *seq*-th of its *key*, *at_ms* after the start."""

    key: str
    type: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Question:
    """Asked before the scenario is played; the first of *answers* is right, and pages show them in another order."""

    text: str
    answers: tuple[str, str, str]
    why: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """A short story whose mishaps are fixed, and the chances of the same kind of mishap among many events."""

    name: str
    title: str
    about: str
    questions: tuple[Question, ...]
    mishaps: dict[tuple[str, int, int], Mishap] = field(default_factory=dict)
    """By key, seq and attempt."""
    poison: frozenset[tuple[str, int]] = frozenset()
    """Key and seq of events on which every handler fails, after it has written something."""
    poison_share: float = 0.0
    """The part of many events that is poison."""
    crowd: Faults = field(default_factory=Faults)
    """The chances when the scenario is played with many events."""
    flaps: tuple[tuple[int, int], ...] = ()
    """From when to when, in milliseconds, the consumer is down."""
    stall_every: int = 0
    """Among many events, a worker stalls before it sends one in so many."""
    story: tuple[Published, ...] = (
        Published("A", "order.created", 0),
        Published("A", "order.updated", 60),
        Published("B", "payment.settled", 120),
        Published("B", "payment.refunded", 180),
    )
    attempts_max: int = 8


_TIMEOUT = Question(
    "Event A:1 is timing out and being retried. Event A:2 (same key) is ready to send."
    " What should the sender do with A:2?",
    ("Hold it until A:1 is acknowledged", "Send it now: it is ready", "Drop it: A:1 failed"),
    "Head-of-line blocking: seq n+1 waits until n is acknowledged. Only key A waits; key B flows on.",
)
_DOUBLE = Question(
    "The consumer's network duplicates a delivery, so it receives order.created twice with the same idempotency key."
    " What makes this safe?",
    (
        "The consumer remembers the id in the same commit as the effect, and skips the second copy",
        "The sender notices and takes the second copy back",
        "Copies that arrive later are always older, so a timestamp is enough",
    ),
    "At-least-once plus an idempotent consumer: the id is stored with the effect, or neither is.",
)

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "four-events",
        "Four events",
        "two keys, nothing goes wrong",
        (_TIMEOUT, _DOUBLE),
    ),
    Scenario(
        "timeout",
        "Timeout on A:1",
        "A:2 must wait, B flows on",
        (
            Question(
                "A:1 gets no answer twice. What do the events of key B do meanwhile?",
                (
                    "They are delivered at once: only key A waits",
                    "They wait behind A:1 as well",
                    "They are delivered after A:2",
                ),
                "One stuck event stalls only its own key. Global order would stall all traffic.",
            ),
        ),
        mishaps={("A", 1, 1): Mishap.REQUEST_LOST, ("A", 1, 2): Mishap.REQUEST_LOST},
        crowd=Faults(drop_request=0.2),
    ),
    Scenario(
        "lost-ack",
        "Lost ack",
        "applied, but the answer got lost",
        (
            Question(
                "The consumer applied A:1, and its 200 got lost on the way back. What does the sender know?",
                (
                    "Nothing: it must send A:1 again, and the consumer must recognise it",
                    "That A:1 was delivered, since the connection was open",
                    "That A:1 failed, so nothing was applied",
                ),
                "No answer means an unknown outcome. Sending again is the only way not to lose it.",
            ),
        ),
        mishaps={("A", 1, 1): Mishap.ACK_LOST, ("B", 2, 1): Mishap.ACK_LOST},
        crowd=Faults(drop_ack=0.15, duplicate=0.05, reorder_ms=4_000),
    ),
    Scenario(
        "double-delivery",
        "Double delivery",
        "the network sends a copy",
        (
            Question(
                "A copy of A:1 arrives after A:2 was applied. Which receivers end in the wrong state?",
                (
                    "The one that applies whatever arrives",
                    "All of them: the copy came last",
                    "None: the bytes are the same",
                ),
                "A late copy has a seq that was applied already. A receiver that looks at id or seq skips it.",
            ),
        ),
        mishaps={("A", 1, 1): Mishap.DOUBLED_LATE, ("B", 2, 1): Mishap.DOUBLED_LATE},
        crowd=Faults(duplicate=0.2, reorder_ms=3_000),
    ),
    Scenario(
        "poison",
        "Poison event",
        "A:1 always fails and dies",
        (
            Question(
                "A:1 fails on every attempt until the last. What happens to A:2?",
                (
                    "It stays behind A:1 until a person replays or skips A:1",
                    "It is delivered, and A:1 is forgotten",
                    "It dies with A:1",
                ),
                "A dead head halts its lane. Nothing slips past it in silence, and nothing is lost.",
            ),
        ),
        poison=frozenset({("A", 1)}),
        poison_share=0.03,
        attempts_max=4,
    ),
    Scenario(
        "flapping",
        "Flapping endpoint",
        "down, up, down again",
        (
            Question(
                "A proxy answers 502 although the application behind it had finished. What is applied twice?",
                (
                    "At a receiver without an idempotency key: each event that got such an answer",
                    "Nothing: 502 means that nothing was done",
                    "Everything that was in the queue",
                ),
                "An error in front of the application says nothing about what the application did.",
            ),
        ),
        mishaps={("A", 1, 1): Mishap.BAD_GATEWAY, ("B", 1, 1): Mishap.UNAVAILABLE, ("B", 2, 1): Mishap.BAD_GATEWAY},
        flaps=((1_500, 2_600), (4_000, 6_000)),
    ),
    Scenario(
        "late-retry",
        "Late retry of an old event",
        "a sender's worker wakes up and sends A:1 again, after A:2",
        (
            Question(
                "The late copy of A:1 is stamped with the time at which it was sent, which is newer than A:2's."
                " What does a guard on that time do?",
                (
                    "It lets A:1 overwrite A:2: the clock of an attempt says nothing about the event's age",
                    "It drops A:1, which is older",
                    "It asks the sender which is newer",
                ),
                "deliveredAt belongs to the attempt. Order belongs to the event: seq, stamped when it was published.",
            ),
        ),
        mishaps={("A", 1, 1): Mishap.STALLED},
        stall_every=25,
    ),
    Scenario(
        "two-workers",
        "Two workers, one id",
        "two copies at the same moment",
        (
            Question(
                "Two workers of the consumer get the same id at the same moment. Both look whether it is known."
                " What do they see?",
                (
                    "Both see that it is new, and both apply it, unless look and effect are one atomic step",
                    "The second always sees what the first did",
                    "The database stops both",
                ),
                "Check, then act is a race. The insert of the id must be the check.",
            ),
        ),
        mishaps={("A", 1, 1): Mishap.DOUBLED, ("B", 2, 1): Mishap.DOUBLED},
        crowd=Faults(duplicate=0.25),
    ),
)

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
