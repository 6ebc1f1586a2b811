"""Copies what the dashboard imports from npm packages into `ui/vendor/`: `python -m tools.vendor`.

The packages are those of `ui/package-lock.json`, pinned by hash; the folder is not in the repository, and a wheel
carries it. A browser does not find a bare name such as "preact", and the page's policy refuses an import map, so the
names are written as relative addresses while the files are copied. What is there already costs nothing.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.node import WHEEL, NodeMissing, npm

ROOT = Path(__file__).resolve().parents[1]
UI = ROOT / "src" / "hooklane" / "server" / "ui"
VENDOR = UI / "vendor"

MODULES = {
    "preact": ("preact/dist/preact.mjs", "preact.js"),
    "preact/hooks": ("preact/hooks/dist/hooks.mjs", "hooks.js"),
    "@preact/signals-core": ("@preact/signals-core/dist/signals-core.mjs", "signals-core.js"),
    "@preact/signals": ("@preact/signals/dist/signals.mjs", "signals.js"),
    "htm": ("htm/dist/htm.mjs", "htm.js"),
    "uplot": ("uplot/dist/uPlot.iife.min.js", "uplot.js"),
}
"""What a module is imported as, where its package has it, and how it is called here."""
STYLES = {"uplot/dist/uPlot.min.css": "uplot.css"}
LICENCES = ("preact", "@preact/signals-core", "@preact/signals", "htm", "uplot")

_IMPORT = re.compile(r"""(\bfrom\s*|\bimport\s*)(["'])([^."'/][^"']*)\2""")
_SOURCE_MAP = re.compile(r"//# sourceMappingURL=\S*")


class CannotVendor(RuntimeError):
    """The dashboard's modules could not be had; the message says what to do."""


def fill() -> None:
    """Make `ui/vendor/` what the lock and this file say, unless it is."""
    stamp = VENDOR / "filled"
    wanted = hashlib.sha256((UI / "package-lock.json").read_bytes() + Path(__file__).read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    with tempfile.TemporaryDirectory(prefix="hooklane-ui-") as name:
        folder = Path(name)
        _install(folder)
        shutil.rmtree(VENDOR, ignore_errors=True)
        VENDOR.mkdir()
        for bare, (source, here) in MODULES.items():
            (VENDOR / here).write_text(as_module(bare, _read(folder, source)), encoding="utf-8")
        for source, here in STYLES.items():
            (VENDOR / here).write_text(_read(folder, source), encoding="utf-8")
        licences = [f"{package}\n{'=' * len(package)}\n\n{_read(folder, f'{package}/LICENSE')}" for package in LICENCES]
        (VENDOR / "LICENSES.txt").write_text("\n\n".join(licences), encoding="utf-8")
    stamp.write_text(wanted)  # last, so that what was cut short is done again


def as_module(bare: str, text: str) -> str:
    """The text of a package's file as a module that a browser can import by a relative address."""
    if bare == "uplot":
        text += "\nexport default uPlot;\n"  # its small build is a script, a third of its module

    def address(match: re.Match[str]) -> str:
        if match[3] not in MODULES:
            raise CannotVendor(f"{bare} imports {match[3]}, which tools/vendor.py does not copy: add it to MODULES")
        return f"{match[1]}{match[2]}./{MODULES[match[3]][1]}{match[2]}"

    return _SOURCE_MAP.sub("", _IMPORT.sub(address, text))


def _read(folder: Path, source: str) -> str:
    path = folder / "node_modules" / source
    if not path.is_file():
        raise CannotVendor(f"the npm packages of {UI / 'package.json'} have no file {source}")
    return path.read_text(encoding="utf-8")


def _install(folder: Path) -> None:
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(UI / name, folder)
    command = [*_npm(folder), "ci", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "--loglevel=error"]
    _run(command, folder, "npm could not install the dashboard's packages")


def _npm(folder: Path) -> list[str]:
    """npm; where the machine has none, the wheel of it, as the lock of the tests pins it."""
    try:
        return npm()
    except NodeMissing:
        lock = (ROOT / "requirements" / "test.lock").read_text()
        pinned = re.search(rf"^{WHEEL}==.*(?:\\\n.*)+$", lock, re.MULTILINE)
        if pinned is None:
            raise CannotVendor(f"npm is missing: install Node.js with npm, or the package {WHEEL}") from None
        (folder / "npm.lock").write_text(pinned[0] + "\n")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
        _run([*pip, "-r", str(folder / "npm.lock")], folder, f"npm is missing, and pip could not install {WHEEL}")
        return npm()


def _run(command: list[str], folder: Path, failed: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise CannotVendor(f"{failed}: {lines[-1] if lines else f'exit status {done.returncode}'}")


if __name__ == "__main__":
    try:
        fill()
    except CannotVendor as problem:
        sys.exit(f"tools.vendor: {problem}")
