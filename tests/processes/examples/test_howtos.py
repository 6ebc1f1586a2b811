"""The how-tos of the receiver: their programs are programs, and what they say of pytest runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from tests.support.pace import scaled_s
from tests.support.tree import ROOT, SOURCE

import hooklane

DOCS = ROOT / "docs" / "how-to"
PAGES = sorted(page.stem for page in DOCS.glob("*.md"))


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (DOCS / f"{page}.md").read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_every_program_of_a_page_compiles_and_every_link_leads_somewhere(page):
    for number, block in enumerate(blocks(page)):
        compile(block, f"{page}, block {number}", "exec")
    links = re.findall(r"\]\((?!http)([^)#]+)\)", (DOCS / f"{page}.md").read_text())
    assert [link for link in links if not (DOCS / link).exists()] == []


@pytest.mark.parametrize("page", ["receive-in-fastapi", "receive-in-flask"])
def test_the_first_program_of_a_page_is_an_application(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "app"}
    exec(compile(blocks(page)[0], page, "exec"), names)

    assert names["app"] is not None
    assert list(names["inbox"].sources["stripe"].handlers) == ["paid"]
    names["inbox"].close()


def test_the_program_about_ones_own_transaction_publishes_with_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "shop"}
    exec(compile(blocks("publish-in-your-transaction")[0], "publish-in-your-transaction", "exec"), names)

    (published,) = names["conn"].execute("SELECT type, key FROM hooklane_event").fetchall()
    assert published == ("order.paid", "order:o_1")
    assert names["conn"].execute("SELECT state FROM orders").fetchall() == [("paid",)]


def test_a_scheme_of_ones_own_is_described_as_the_page_says():
    names = {"inbox": hooklane.Inbox("memory://")}
    exec(compile(blocks("verify-a-signature")[0], "verify-a-signature", "exec"), names)

    assert names["inbox"].sources["crm"].grade == "signed"


def test_the_tests_of_the_page_about_pytest_pass(tmp_path):
    conftest, tests, *_ = blocks("test-with-pytest")
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_payments.py").write_text(tests)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "hooklane.testing.plugin"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": SOURCE, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=scaled_s(60),
        check=False,
    )

    assert "8 passed" in ended.stdout, ended.stdout
