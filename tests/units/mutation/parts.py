"""The parts of which mutants are made, and the tests that should notice them.

None of these tests starts a server or a program. `hunt.py` runs of them those that run the changed function.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.support.tree import ROOT

SOURCE = ROOT / "src/hooklane"


class Part(NamedTuple):
    """Files of *source* (below src/hooklane) and *tests* (words for pytest)."""

    source: tuple[str, ...]
    tests: tuple[str, ...]

    def modules(self) -> list[str]:
        """The files themselves; a folder stands for all of its own."""
        found = [
            sorted((SOURCE / one).glob("*.py")) if (SOURCE / one).is_dir() else [SOURCE / one] for one in self.source
        ]
        return [str(file.relative_to(SOURCE)) for files in found for file in files]


_CORE = "tests/units/core"
_RECEIVING = "tests/promises/receiving"
_ENGINE = tuple(f"{_CORE}/test_engine_{name}.py" for name in ("order", "news", "limits", "suspects", "sweeps"))
_WORKER = tuple(
    f"{_CORE}/test_worker_{name}.py" for name in ("ownership", "news", "writing", "waking", "witness", "decisions")
)
_CLAIMING = (
    "claims_by_hand",
    "traps_of_claiming",
    "promises",
    "inbox_first_steps",
    "retries_and_dead_letters",
    "keeping_and_replay",
    "order_at_the_receiver",
    "skip_and_replay",
    "handlers_and_their_effects",
    "traps_of_recovery",
    "the_clock_is_set",
    "downtime",
)
_CRASHING = (
    "a_zombies_work_is_rolled_back",
    "a_message_that_kills_its_workers_ends_as_a_dead_letter",
    "a_late_commit_and_a_redelivery_give_one_effect",
    "a_commit_that_fails_is_answered_503_and_leaves_nothing",
)

PARTS = {
    "guard": Part(
        ("sender/egress.py", "sender/addresses.py", "sender/transport/dialer.py"),
        (
            "tests/units/egress/test_egress_addresses.py",
            "tests/units/egress/test_egress_urls.py",
            "tests/units/transport/test_transport_answers.py",
            "tests/units/transport/test_transport_egress.py",
            "tests/units/transport/test_transport_connections.py",
            "tests/units/transport/test_transport_tls.py",
        ),
    ),
    "verifier": Part(  # not what it says to people: explain.py, clues.py, guesses.py, custom.py
        tuple(
            f"core/verify/{name}.py"
            for name in (
                *("bespoke", "certificate", "check", "document", "handshake", "keys", "messages", "open_request"),
                *("parts", "places", "profile", "reading", "ring", "scheme", "standard", "urls"),
            )
        ),
        tuple(
            f"tests/units/verify/test_{name}.py"
            for name in (
                *("attacks", "bespoke", "handshakes", "keyring", "peers", "profiles", "published_examples", "signing"),
                *("standard", "vectors"),
            )
        ),
    ),
    "claim": Part(
        (
            "receiver/claim.py",
            "receiver/flows/claims.py",
            "receiver/flows/handle.py",
            "store/memory/inbox/claims.py",
            "store/sql/inbox.py",
            "core/admission/turns.py",
            "core/admission/copies.py",
            "core/admission/retention.py",
            "core/admission/failures.py",
        ),
        (
            f"{_CORE}/test_admission.py",
            "tests/stores/inbox/test_inbox_conformance.py",
            *(f"{_RECEIVING}/test_{name}.py" for name in _CLAIMING),
            *(f"{_RECEIVING}/test_crashes_and_crowds.py::test_{name}" for name in _CRASHING),
        ),
    ),
    "lane machine": Part(
        ("core/machine.py", "core/engine", "store/memory/outbox/settling.py", "store/memory/outbox/owning.py"),
        (
            f"{_CORE}/test_lane_machine.py",
            *_ENGINE,
            f"{_CORE}/test_clock_jumps.py",
            "tests/stores/outbox/test_memory.py",
            "tests/promises/sending/test_turns.py",
        ),
    ),
    "worker": Part(("core/worker",), (*_WORKER, f"{_CORE}/test_clock_jumps.py")),
    "judge": Part(
        ("core/judge.py", "core/breaker.py"),
        (f"{_CORE}/test_judge.py", f"{_CORE}/test_breaker.py", "tests/promises/sending/test_answers.py", *_ENGINE),
    ),
}
