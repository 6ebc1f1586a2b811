"""What a release says of itself: the bill of materials, and the recipe that builds it."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.pace import scaled_s
from tests.support.tree import ROOT

from hooklane import __version__

RECIPE = ROOT / ".github" / "workflows" / "wheels.yml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LENGTHS = {"SHA-256": 64, "SHA-512": 128}


@pytest.fixture(scope="module")
def bill(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("sbom") / "new" / "hooklane.cdx.json"
    write_bill(path)
    return json.loads(path.read_text("utf-8"))


def write_bill(path: Path) -> None:
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    words = [sys.executable, "-m", "tools.sbom", str(path)]
    subprocess.run(words, cwd=ROOT, env=env, check=True, timeout=scaled_s(30))


def test_the_bill_of_materials_has_the_shape_that_cyclonedx_asks_for(bill: Any):
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bill["serialNumber"])
    assert bill["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    assert bill["metadata"]["component"]["purl"] == f"pkg:pypi/hooklane@{__version__}"
    for one in bill["components"]:
        assert {"type", "bom-ref", "name", "version", "purl", "hashes"} <= set(one)
        assert re.fullmatch(r"pkg:(pypi|npm)/[^@\s]+@[^@\s]+", one["purl"]), one["purl"]
        assert all(re.fullmatch(r"[0-9a-f]+", each["content"]) for each in one["hashes"])
        assert all(len(each["content"]) == LENGTHS[each["alg"]] for each in one["hashes"])
    refs = [one["bom-ref"] for one in [bill["metadata"]["component"], *bill["components"]]]
    assert len(refs) == len(set(refs))
    assert sorted(one["ref"] for one in bill["dependencies"]) == sorted(refs)
    assert {ref for one in bill["dependencies"] for ref in one["dependsOn"]} <= set(refs)


def test_the_bill_names_every_package_of_the_lock_and_what_the_dashboard_is_made_of(bill: Any):
    lock = (ROOT / "requirements" / "run.lock").read_text("utf-8")
    named = {(one["name"], one["version"]) for one in bill["components"] if one["purl"].startswith("pkg:pypi/")}

    assert named == set(re.findall(r"^([\w.-]+)==([^\s;]+)", lock, re.MULTILINE))
    assert sum(len(one["hashes"]) for one in bill["components"] if "pypi" in one["purl"]) == lock.count("--hash=")
    assert {one["name"] for one in bill["components"] if "npm" in one["purl"]} >= {"preact", "@preact/signals", "uplot"}
    needs = {one["ref"].partition("@")[0]: one["dependsOn"] for one in bill["dependencies"]}
    assert any(ref.startswith("pkg:pypi/cryptography@") for ref in needs["pkg:pypi/hooklane"])
    assert any(ref.startswith("pkg:pypi/cffi@") for ref in needs["pkg:pypi/cryptography"])


def test_the_same_locks_give_the_same_bill(bill: Any, tmp_path: Path):
    write_bill(tmp_path / "again.json")

    assert json.loads((tmp_path / "again.json").read_text("utf-8")) == bill


def test_the_recipe_builds_compiled_wheels_for_linux_and_macos_and_a_pure_one_beside_them():
    recipe = yaml.safe_load(RECIPE.read_text("utf-8"))
    pure, compiled = recipe["jobs"]["sdist"], recipe["jobs"]["compiled"]

    systems = {name.partition("-")[0] for name in compiled["strategy"]["matrix"]["os"]}
    assert systems == {"ubuntu", "macos"}
    assert compiled["needs"] == "sdist"
    (wheels,) = [step for step in compiled["steps"] if "cibuildwheel" in step.get("run", "")]
    assert wheels["env"]["CIBW_ENVIRONMENT"] == "HOOKLANE_COMPILE=1"
    # For the versions that the package says it is for.
    classified = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["project"]["classifiers"]))
    assert wheels["env"]["CIBW_BUILD"].split() == [f"cp{version.replace('.', '')}-*" for version in classified]
    # What its test imports is in the list of what is compiled.
    test = shlex.split(wheels["env"]["CIBW_TEST_COMMAND"])[2]
    assert re.findall(r"import ([\w.]+)", test)[0] in PROJECT["tool"]["hooklane"]["compiled"]["modules"]
    assert import_module(re.findall(r"import ([\w.]+)", test)[0])
    (built,) = [step["run"] for step in pure["steps"] if "make dist" in step.get("run", "")]
    assert "diff -r first dist" in built


def test_the_recipe_can_write_nothing_and_every_step_is_pinned():
    recipe = yaml.safe_load(RECIPE.read_text("utf-8"))

    assert recipe["permissions"] == {"contents": "read"}
    steps = [step for job in recipe["jobs"].values() for step in job["steps"]]
    assert all(re.search(r"@v\d+$", step["uses"]) for step in steps if "uses" in step)
    assert all("==" in step["run"] for step in steps if "pip install" in step.get("run", ""))


def test_make_dist_and_make_sbom_date_what_they_make_by_the_commit():
    words = ["make", "--dry-run", "-o", f"{sys.prefix}/.installed-run", f"VENV={sys.prefix}", "EPOCH=5", "dist", "sbom"]
    told = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True, timeout=scaled_s(20)).stdout

    assert f"SOURCE_DATE_EPOCH=5 {sys.prefix}/bin/python -m hatchling build --directory dist\n" in told
    assert f"SOURCE_DATE_EPOCH=5 {sys.prefix}/bin/python -m tools.sbom dist/hooklane.cdx.json\n" in told
