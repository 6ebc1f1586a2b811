"""Writes the bill of materials of what `make run` installs and a wheel carries: `python -m tools.sbom [FILE]`.

CycloneDX 1.6 in JSON, made from the two locks alone: Python packages of `requirements/run.lock`, and the npm packages
whose modules are copied into the wheel. The same locks give the same bytes; SOURCE_DATE_EPOCH dates them.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tools.vendor import LICENCES, UI

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements" / "run.lock"
VERSION = ROOT / "src" / "hooklane" / "__init__.py"
NAMESPACE = uuid.UUID("5b0f4d1e-6d0e-5f6c-9a43-0d5c3c2f7a10")
"""Ours, of which the serial number of a bill is made: two bills of one content have one number."""

_PINNED = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>\S+)(?: ; (?P<marker>.*?))?(?: \\)?$")
_VIA = re.compile(r"^    #(?: via|  ) +(?P<name>[\w.-]+)")

Component = dict[str, Any]


def bill() -> dict[str, Any]:
    """The whole document."""
    packages, needed_by = python_packages(LOCK.read_text("utf-8"))
    modules = npm_packages(json.loads((UI / "package-lock.json").read_text("utf-8")))
    us = _us()
    depends = {one["bom-ref"]: [] for one in [us, *packages, *modules]}
    by_name = {one["name"]: one["bom-ref"] for one in packages}
    for name, parents in needed_by.items():
        for parent in parents:
            depends[by_name.get(parent, us["bom-ref"])].append(by_name[name])
    depends[us["bom-ref"]] += [one["bom-ref"] for one in modules]
    whole = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": us, **_timestamp()},
        "components": [*packages, *modules],
        "dependencies": [{"ref": ref, "dependsOn": sorted(set(on))} for ref, on in sorted(depends.items())],
    }
    return {**whole, "serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, json.dumps(whole, sort_keys=True))}"}


def python_packages(lock: str) -> tuple[list[Component], dict[str, list[str]]]:
    """The packages of *lock*, and for each the names that a `# via` gives: what needs it."""
    found: list[Component] = []
    needed_by: dict[str, list[str]] = {}
    for line in lock.splitlines():
        if pinned := _PINNED.match(line):
            ref = f"pkg:pypi/{_normal(pinned['name'])}@{pinned['version']}"
            one = _component(ref, pinned["name"], pinned["version"])
            if pinned["marker"]:
                one["properties"] = [{"name": "hooklane:marker", "value": pinned["marker"]}]
            found.append(one)
            needed_by[pinned["name"]] = []
        elif line.startswith("    --hash=sha256:"):
            # One for each file of the release that the lock takes.
            content = line.strip().removeprefix("--hash=sha256:").removesuffix("\\").strip()
            found[-1].setdefault("hashes", []).append({"alg": "SHA-256", "content": content})
        elif via := _VIA.match(line):
            needed_by[found[-1]["name"]].append(via["name"])
    return found, needed_by


def npm_packages(lock: dict[str, Any]) -> list[Component]:
    """The packages whose modules are copied into the wheel."""
    found = []
    for name in LICENCES:
        package = lock["packages"][f"node_modules/{name}"]
        one = _component(f"pkg:npm/{name.replace('@', '%40')}@{package['version']}", name, package["version"])
        algorithm, _, digest = package["integrity"].partition("-")
        assert algorithm == "sha512", f"{name} is pinned by {algorithm}"
        one["hashes"] = [{"alg": "SHA-512", "content": base64.b64decode(digest).hex()}]
        if "license" in package:
            one["licenses"] = [{"license": {"id": package["license"]}}]
        found.append(one)
    return found


def _us() -> Component:
    version = re.search(r'^__version__ = "([^"]+)"', VERSION.read_text("utf-8"), re.MULTILINE)
    assert version is not None
    us = _component(f"pkg:pypi/hooklane@{version[1]}", "hooklane", version[1])
    return {**us, "type": "application", "licenses": [{"license": {"id": "Apache-2.0"}}]}


def _component(ref: str, name: str, version: str) -> Component:
    return {"type": "library", "bom-ref": ref, "name": name, "version": version, "purl": ref}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _timestamp() -> dict[str, str]:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    return (
        {} if not epoch else {"timestamp": datetime.fromtimestamp(int(epoch), UTC).isoformat().replace("+00:00", "Z")}
    )


if __name__ == "__main__":
    text = json.dumps(bill(), indent=2) + "\n"
    if len(sys.argv) > 1:
        target = Path(sys.argv[1])
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    else:
        sys.stdout.write(text)
