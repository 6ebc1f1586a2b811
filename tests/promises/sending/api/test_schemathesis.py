"""Schemathesis against a running server, over HTTP: what the description of the API says is what the server does.

No answer is a 5xx, none has a status or a media type that is not described, and every body fits its schema. Two of its
checks are left out, since their rules are not ours: that a wrong key is always told 401 (guesses are slowed with 429,
ADR 0037), and that whatever fits a schema is accepted (a URL may fit and still lead to where deliveries may not go).
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.promises.sending.api.conftest import KEY, Api
from tests.promises.sending.api.inbox_site import Site
from tests.support.eventually import eventually
from tests.support.pace import scaled_s
from tests.support.receiver import Answer, Sink

V1 = "/api/v1"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "missing_required_header",
    "use_after_free",
    "ensure_resource_availability",
)
SHORT = ("--max-examples", "1", "--max-failures", "5", "--include-path-regex", f"^{V1}/(events|endpoints|plans|jobs)")
LONG = ("--max-examples", "40", "--max-failures", "20")


async def furnished(api: Api, sink: Sink, dead: str) -> dict[str, str]:
    """A server with something of every kind; the path of each kind, and an id of it."""
    sink.react = lambda seen: Answer(status=422 if "bad" in seen.path else 200, body=b"no")
    good = await api.endpoint(sink.url("/good"), types=["order.*"])
    await api.endpoint(sink.url("/bad"), types=["pay.*"], attempts_max=1)
    event = await api.publish("order.created", {"a": 1}, key="k")
    await api.publish("pay.failed", {"n": 1}, key="p")

    async def letters() -> Any:
        return (await api.get(f"{V1}/dead-letters"))["items"]

    letter = (await eventually(letters, within_s=60))[0]["id"]
    plan = (await api.call("POST", f"{V1}/plans", {"op": "replay", "ids": [letter]})).json
    job = (await api.call("POST", f"{V1}/plans", {"op": "replay", "ids": [letter]})).json
    job = (await api.call("POST", f"{V1}/plans/{job['id']}/run", {"digest": job["digest"], "grace_s": 300})).json
    await api.call("PUT", f"{V1}/types/order.created", {"description": "made", "schema": {"type": "object"}})
    await api.call("POST", f"{V1}/tenants", {"id": "acme"})
    return {
        "events": event["id"],
        "endpoints": good["id"],
        "dead-letters": letter,
        "plans": plan["id"],
        "jobs": job["id"],
        "inbox": dead,
        "lanes": good["id"],
        "types": "order.created",
        "tenants": "acme",
    }


def config(ids: dict[str, str], *, real: bool, mode: str) -> str:
    """The settings of Schemathesis; with *real*, ids and names in paths are those of things that exist."""
    lines = ["[phases.coverage]", "unexpected-methods = []", f'generation.mode = "{mode}"']
    for kind, id in ids.items() if real else ():
        named = {"lanes": "endpoint", "types": "type", "tenants": "tenant"}.get(kind, "id")
        # What deletes is left to choose for itself: the others would find nothing any more.
        lines += ["[[operations]]", f'include-path-regex = "^{V1}/{kind}/.{named}"', 'exclude-method = "DELETE"']
        extra = ', "path.key" = "k"' if kind == "lanes" else ""
        lines += [f'parameters = {{ "path.{named}" = "{id}"{extra} }}']
    return "\n".join(lines)


@pytest.mark.parametrize("shared_db", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("real", "share"),
    [
        pytest.param(True, SHORT, id="a share"),
        pytest.param(True, LONG, id="ids that exist", marks=pytest.mark.soak),
        pytest.param(False, LONG, id="any ids", marks=pytest.mark.soak),
    ],
)
async def test_schemathesis_finds_no_failure_and_nothing_undescribed(
    site: Site, sink: Sink, dead: str, tmp_path: Path, real: bool, share: tuple[str, ...]
) -> None:
    ids = await furnished(site.api, sink, dead)
    settings = tmp_path / "schemathesis.toml"
    settings.write_text(config(ids, real=real, mode="positive" if share is SHORT else "all"))
    command = ["--no-color", "--config-file", str(settings), "run"]
    command += [f"http://127.0.0.1:{site.api.port}/api/openapi.json", "--header", f"Authorization: Bearer {KEY}"]
    command += ["--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing,stateful", "--seed", "7"]
    command += ["--exclude-path", f"{V1}/stream", "--no-shrink", "--generation-database", "none", *share]

    tool = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "schemathesis.cli", *command, cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        said, _ = await asyncio.wait_for(tool.communicate(), scaled_s(120 if share is SHORT else 1_500))
    finally:
        if tool.returncode is None:
            tool.kill()
            await tool.wait()

    assert tool.returncode == 0, said.decode(errors="replace")
    assert b"Stateful" in said
