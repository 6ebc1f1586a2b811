"""The test vectors of the wire protocol: current, and understood alike by us, by Node and by the standard's library."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from standardwebhooks import Webhook
from tests.support.node import ROOT, node
from tests.support.pace import scaled_s
from tools import wire_vectors

from hooklane.core.profiles import find_profile
from hooklane.core.verify.check import check
from hooklane.core.verify.ring import keyring
from hooklane.errors import VerificationError
from hooklane.model.clock import Instant
from hooklane.model.message import Request

VECTORS: dict[str, Any] = json.loads(wire_vectors.FILE.read_text(encoding="utf-8"))
PAGE = ROOT / "docs" / "reference" / "wire-protocol.md"


def verified(one: dict[str, Any]) -> bool:
    profile = find_profile("hooklane")
    request = Request("POST", "/", tuple(one["headers"].items()), one["body"].encode())
    try:
        check(request, profile, keyring(profile, one["verify_with"]), Instant(one["now"] * 1000))
    except VerificationError:
        return False
    return True


def test_the_file_is_what_the_code_that_sends_makes() -> None:
    told = f"run {Path(sys.executable).name} -m tools.wire_vectors, and look at what changed: others rely on it"

    assert wire_vectors.FILE.read_text(encoding="utf-8") == wire_vectors.written(), told


def test_node_agrees_with_every_vector() -> None:
    program = ROOT / "tests" / "processes" / "interop" / "check_vectors.mjs"
    done = subprocess.run(
        [*node(), program, wire_vectors.FILE], capture_output=True, text=True, check=True, timeout=scaled_s(60)
    )

    assert json.loads(done.stdout)["wrong"] == []


def test_node_notices_a_vector_that_is_wrong(tmp_path: Path) -> None:
    forged = {**VECTORS, "deliveries": VECTORS["refused"], "refused": VECTORS["deliveries"]}
    forged["turns"] = [{**turn, "applied": turn["applied"] + 1} for turn in VECTORS["turns"]]
    (tmp_path / "vectors.json").write_text(json.dumps(forged))
    program = ROOT / "tests" / "processes" / "interop" / "check_vectors.mjs"
    command = [*node(), str(program), str(tmp_path / "vectors.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=scaled_s(60))

    wrong = json.loads(done.stdout)["wrong"]
    assert {line.partition(":")[0] for line in wrong} == {"refused", "accepted", "turn"}
    assert sum(not line.startswith("turn") for line in wrong) == len(VECTORS["refused"]) + len(VECTORS["deliveries"])


@pytest.mark.parametrize("one", VECTORS["deliveries"], ids=lambda one: one["name"])
def test_our_receiver_accepts_every_delivery(one: dict[str, Any]) -> None:
    assert verified(one)


@pytest.mark.parametrize("one", VECTORS["refused"], ids=lambda one: one["name"])
def test_our_receiver_refuses_what_must_be_refused(one: dict[str, Any]) -> None:
    assert not verified(one)


def test_the_library_of_the_standard_makes_the_same_signatures() -> None:
    for one in VECTORS["deliveries"]:
        headers = one["headers"]
        at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
        for secret in one["verify_with"]:
            if secret.startswith("whsec_"):
                made = Webhook(secret).sign(headers["webhook-id"], at, one["body"])
                assert made in headers["webhook-signature"].split(" "), one["name"]


def test_all_copies_have_the_same_bytes_and_the_headers_say_what_the_body_says() -> None:
    first, second, *_ = VECTORS["deliveries"]
    assert first["body"] == second["body"]
    assert first["headers"]["webhook-signature"] != second["headers"]["webhook-signature"]

    for one in VECTORS["deliveries"]:
        headers = one["headers"]
        assert headers["Idempotency-Key"] == headers["webhook-id"]
        if "raw" in one["name"]:
            continue
        body = json.loads(one["body"])
        assert body["id"] == headers["webhook-id"]
        assert body.get("key") == (unquote(headers["X-Key"]) if "X-Key" in headers else None)
        assert [str(body[name]) for name in ("seq", "prev_seq") if name in body] == [
            headers[name] for name in ("X-Seq", "X-Prev-Seq") if name in headers
        ]


def test_the_page_names_every_header_of_a_delivery_and_leads_nowhere_in_vain() -> None:
    page = PAGE.read_text(encoding="utf-8")

    for one in VECTORS["deliveries"]:
        for header in one["headers"]:
            assert f"`{header}`" in page, header
    links = re.findall(r"\]\((?!http)([^)#]+)\)", page)
    assert links
    assert [link for link in links if not (PAGE.parent / link).exists()] == []
