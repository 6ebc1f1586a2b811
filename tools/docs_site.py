"""Builds the documentation into build/site: `python -m tools.docs_site`, which `make docs` runs.

Zensical makes the pages. What it lacks is done here: pages that stand beside docs/ in the repository come along, links
to programs lead to pages that show them, the playground's scenarios are recorded for pages that play them, pages that
the menu does not name are put under their folder, llms.txt lists all pages, and the result is searched for dead links
and for anything that a browser would fetch from another host.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tools.record_traces import record

ROOT = Path(__file__).resolve().parents[1]
STAGED = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"
CONFIG = ROOT / "build" / "zensical.toml"
BESIDE = {
    "ARCHITECTURE.md": "explain/architecture.md",
    "CHANGELOG.md": "reference/changelog.md",
    "CONTRIBUTING.md": "explain/contributing.md",
    "SECURITY.md": "reference/security.md",
    "UPGRADING.md": "reference/upgrading.md",
}
"""Pages of the repository's first folder, and where they stand on the site."""
SHOWN_AS = {
    ".py": "python",
    ".sql": "sql",
    ".mjs": "javascript",
    ".js": "javascript",
    ".md": "markdown",
    ".toml": "toml",
}
_REST_OF = re.compile(r"^( *)# the rest of ([\w-]+)/\n", re.MULTILINE)
"""In the menu: pages of a folder that no line names stand here."""
_EMPTY = re.compile(r'^ *\{ "[^"]+" = \[\n *\] \},\n', re.MULTILINE)
"""A part of the menu in which there is nothing: a link to nowhere."""
_LINK = re.compile(r"(?<=\]\()(?!https?:|#|mailto:)([^)\s#]+)(#[^)\s]*)?(?=\))")
_FETCHED = {("link", "href"), ("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("audio", "src")}


class DocsBroken(RuntimeError):
    """The site cannot be built as it should be; the message lists what is wrong."""


def main() -> int:
    try:
        build()
    except DocsBroken as broken:
        print(f"docs: {broken}", file=sys.stderr)
        return 1
    print(f"docs: {sum(1 for _ in SITE.rglob('*.html'))} pages in {SITE.relative_to(ROOT)}")
    return 0


def build() -> None:
    stage()
    record(STAGED / "traces")
    CONFIG.write_text(with_whole_menu((ROOT / "zensical.toml").read_text()))
    shutil.rmtree(SITE, ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "--config-file", str(CONFIG)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise DocsBroken(f"zensical has warnings:\n{done.stdout}{done.stderr}")
    write_llms()
    check()


# --- what the site is made from ---


def stage() -> None:
    """docs/ and what stands beside it, with links that hold on the site."""
    shutil.rmtree(STAGED, ignore_errors=True)
    shutil.copytree(ROOT / "docs", STAGED, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    shown: set[Path] = set()
    for source, page in {
        **{str(p.relative_to(ROOT)): str(p.relative_to(ROOT / "docs")) for p in pages()},
        **BESIDE,
    }.items():
        target = STAGED / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_with_links(ROOT / source, page, shown))
    for source_file in sorted(shown):
        _show(source_file)


def pages() -> Iterator[Path]:
    yield from sorted((ROOT / "docs").rglob("*.md"))


def with_whole_menu(config: str) -> str:
    """*config* with every staged page in the menu: a page that nobody listed is still found."""
    named = set(re.findall(r'"([\w/.-]+\.md)"', config))
    staged = {str(page.relative_to(STAGED)) for page in STAGED.rglob("*.md")}
    if missing := sorted(named - staged):
        raise DocsBroken(f"the menu names pages that do not exist: {', '.join(missing)}")

    def rest(match: re.Match[str]) -> str:
        pages = sorted(page for page in staged - named if page.startswith(f"{match[2]}/"))
        return "".join(f'{match[1]}"{page}",\n' for page in pages)

    return _EMPTY.sub("", _REST_OF.sub(rest, config))


def _with_links(source: Path, page: str, shown: set[Path]) -> str:
    def moved(match: re.Match[str]) -> str:
        target = (source.parent / match[1]).resolve()
        if not target.exists():
            raise DocsBroken(f"{source.relative_to(ROOT)} links to {match[1]}, which does not exist")
        return _relative(page, _place_of(target, shown)) + (match[2] or "")

    return _LINK.sub(moved, source.read_text())


def _place_of(target: Path, shown: set[Path]) -> str:
    """Where on the site a file of the repository is to be seen."""
    name = str(target.relative_to(ROOT))
    if name in BESIDE:
        return BESIDE[name]
    if name == "README.md":
        return "index.md"
    if target.is_dir():
        for index in ("README.md", "index.md"):
            if (target / index).exists():
                return _place_of(target / index, shown)
        files = [file for file in sorted(target.iterdir()) if file.suffix in SHOWN_AS]
        if not files:
            raise DocsBroken(f"a page links to the folder {name}, which holds nothing to show")
        return _place_of(files[0], shown)
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    shown.add(target)
    return f"files/{name}.md" if target.suffix != ".md" else f"files/{name}"


def _relative(page: str, target: str) -> str:
    ups = "../" * page.count("/")
    return f"{ups}{target}"


def _show(file: Path) -> None:
    """A page that shows a program of the repository."""
    name = str(file.relative_to(ROOT))
    target = STAGED / _place_of(file, set())
    target.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".md":
        target.write_text(_with_links(file, str(target.relative_to(STAGED)), set()))
        return
    target.write_text(f"# {name}\n\n````{SHOWN_AS.get(file.suffix, 'text')}\n{file.read_text().rstrip()}\n````\n")


# --- what is added, and what is checked ---


def write_llms() -> None:
    """llms.txt with a line a page, and each page as the Markdown that it was made from."""
    lines = [
        "# hooklane",
        "",
        "> Webhooks that arrive in order, count once, and never vanish: sender and receiver, in Python.",
        "",
    ]
    for page in sorted(STAGED.rglob("*.md")):
        name = page.relative_to(STAGED)
        if name.parts[0] == "files":
            continue
        text = page.read_text()
        (SITE / name).parent.mkdir(parents=True, exist_ok=True)
        (SITE / name).write_text(text)
        title = next((line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")), str(name))
        lines.append(f"- [{title}]({name})")
    (SITE / "llms.txt").write_text("\n".join(lines) + "\n")


class _Page(HTMLParser):
    """Where a page leads, what it fetches, and the places in it that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            if not value:
                continue
            is_canonical = tag == "link" and ("rel", "canonical") in attrs
            is_trace = name == "data-trace"
            if is_trace or ((tag, name) in _FETCHED and not is_canonical):
                self.fetched.append(value)
            elif tag == "a" and name == "href":
                self.links.append(value)


def check(site: Path = SITE) -> None:
    """No dead link, no missing file, and nothing that a browser would fetch from elsewhere."""
    found = {path: _Page(path.read_text()) for path in site.rglob("*.html")}
    wrong: list[str] = []
    for path, page in found.items():
        where = path.relative_to(site)
        for url in page.fetched:
            if _is_outside(url):
                wrong.append(f"{where} fetches {url}")
            elif not url.startswith("data:") and not _leads_somewhere(path, url, found):
                wrong.append(f"{where} fetches {url}, which does not exist")
        inside = [link for link in page.links if not _is_outside(link) and not link.startswith("mailto:")]
        dead = [link for link in inside if not _leads_somewhere(path, link, found)]
        wrong += [f"{where} links to {link}, which does not exist" for link in dead]
    for path in [*site.rglob("*.css"), *site.rglob("*.js")]:
        for url in re.findall(r"(?:url\(|@import |import\(|from ?)[\"']?(https?://[^\"')\s]+)", path.read_text()):
            wrong.append(f"{path.relative_to(site)} fetches {url}")
    if wrong:
        raise DocsBroken("\n".join(["the site is not whole:", *sorted(set(wrong))[:50]]))


def _is_outside(url: str) -> bool:
    return urlsplit(url).scheme in ("http", "https") or url.startswith("//")


def _leads_somewhere(path: Path, link: str, found: dict[Path, _Page]) -> bool:
    parts = urlsplit(link)
    if path.name == "404.html":
        return True  # it is served at any path, so its links are from the site's root
    target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return False
    page = found.get(target)
    return not parts.fragment or page is None or unquote(parts.fragment) in page.ids


if __name__ == "__main__":
    sys.exit(main())
