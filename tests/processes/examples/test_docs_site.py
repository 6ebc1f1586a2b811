"""The documentation as a site: built without warnings, whole, nothing from other hosts; and checks that can fail."""

from __future__ import annotations

import functools
import http.server
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect, sync_playwright
from tests.support.browser import ARGUMENTS, chromium
from tests.support.once import once_per_run
from tests.support.pace import scaled_ms, scaled_s
from tests.support.tree import ROOT
from tools.docs_site import STAGED, DocsBroken, check, with_whole_menu
from tools.reference_pages import FOLDER, pages

WHOLE = '<html><head><script src="a.js"></script></head><body><h1 id="top">A</h1><a href="#top">up</a></body></html>'


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does: a warning, a dead link or a request to another host is an error there."""

    def build(_: Path) -> None:
        words = [sys.executable, "-m", "tools.docs_site"]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=scaled_s(120), check=False)
        assert done.returncode == 0, done.stderr

    once_per_run(tmp_path_factory, "site", build)
    return ROOT / "build" / "site"


def test_the_site_is_built_without_warnings_dead_links_and_requests_to_other_hosts(site: Path):
    # The playground plays in a page, from files beside it.
    tutorial = (site / "tutorials" / "see-it-work" / "index.html").read_text("utf-8")
    traces = re.findall(r'data-trace="([^"]+)"', tutorial)
    assert len(traces) == 5
    assert all((site / "tutorials" / "see-it-work" / trace).resolve().is_file() for trace in traces)
    # Every page is listed for programs that read, in the form that it was written in.
    listed = re.findall(r"^- \[.+\]\((.+\.md)\)$", (site / "llms.txt").read_text("utf-8"), re.MULTILINE)
    assert {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")} <= set(listed)
    assert all((site / page).is_file() for page in listed)
    # And every page of docs/ is in the menu.
    config = with_whole_menu((ROOT / "zensical.toml").read_text("utf-8"))
    assert [page for page in listed if f'"{page}"' not in config] == []


class Files(http.server.SimpleHTTPRequestHandler):
    """A web server that knows nothing of hooklane."""

    def log_message(self, *_: Any) -> None:
        pass


def test_the_playground_plays_in_the_built_site_and_nothing_comes_from_another_host(site: Path):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    home = f"http://127.0.0.1:{server.server_port}/"
    asked: list[str] = []
    try:
        with sync_playwright() as playwright:
            page = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS).new_page()
            page.on("request", lambda request: asked.append(request.url))
            page.goto(f"{home}tutorials/see-it-work/")
            lost_answer = page.locator("[data-trace$='lost-ack.json']")
            lost_answer.get_by_role("button", name="8×").click()
            lost_answer.locator("[data-act=play]").click()
            expect(lost_answer.locator(".player")).to_have_attribute("data-over", "true", timeout=scaled_ms(30_000))
            expect(lost_answer.locator("[data-receiver=ours] [data-meter=twice]")).to_have_text("0")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

    assert len(asked) > 5
    assert [url for url in asked if not url.startswith((home, "data:", "blob:"))] == []


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ('<a href="nowhere/">x</a>', "links to nowhere/, which does not exist"),
        ('<a href="#nothing">x</a>', "links to #nothing, which does not exist"),
        ('<script src="https://cdn.example/x.js"></script>', "fetches https://cdn.example/x.js"),
        ('<img src="//img.example/x.png">', "fetches //img.example/x.png"),
        ('<div data-trace="traces/none.json"></div>', "fetches traces/none.json, which does not exist"),
    ],
)
def test_a_dead_link_and_a_request_to_another_host_are_found(tmp_path: Path, planted: str, said: str):
    (tmp_path / "a.js").write_text("export {};")
    (tmp_path / "index.html").write_text(WHOLE)
    check(tmp_path)

    (tmp_path / "index.html").write_text(WHOLE.replace("</body>", f"{planted}</body>"))
    with pytest.raises(DocsBroken, match=re.escape(f"index.html {said}")):
        check(tmp_path)


def test_a_stylesheet_from_another_host_is_found(tmp_path: Path):
    (tmp_path / "a.css").write_text('@import "https://fonts.example/inter.css";')

    with pytest.raises(DocsBroken, match=r"a\.css fetches https://fonts\.example"):
        check(tmp_path)


def test_a_page_that_the_menu_names_and_that_is_not_there_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr("tools.docs_site.STAGED", tmp_path)
    assert tmp_path != STAGED
    (tmp_path / "how-to").mkdir()
    (tmp_path / "how-to" / "forgotten.md").write_text("# Forgotten")

    assert with_whole_menu("nav = [\n    # the rest of how-to/\n]") == 'nav = [\n    "how-to/forgotten.md",\n]'
    assert with_whole_menu('nav = [\n    { "More" = [\n        # the rest of explain/\n    ] },\n]') == "nav = [\n]"
    with pytest.raises(DocsBroken, match=r"how-to/gone\.md"):
        with_whole_menu('nav = ["how-to/gone.md"]')


@pytest.mark.parametrize("name", sorted(pages()))
def test_a_page_of_the_reference_says_what_the_code_says(name: str):
    assert (FOLDER / name).read_text("utf-8") == pages()[name], "run: python -m tools.reference_pages"


FOLDED = ("explain", "reference")
ASKING = [page for folder in FOLDED for page in sorted((ROOT / "docs" / folder).glob("*.md"))]
ASKING = [*ASKING, ROOT / "docs" / "glossary.md"]


@pytest.mark.parametrize("page", ASKING, ids=lambda page: page.stem)
def test_a_page_to_understand_or_to_look_up_asks_at_its_end_and_has_the_answers_folded(page: Path):
    _, _, end = page.read_text("utf-8").partition("## Check yourself")
    asked = re.findall(r'<details markdown="1"><summary>(.+?\?)</summary>\n\n(.+?)\n\n</details>', end, re.DOTALL)
    assert len(asked) in (2, 3)
