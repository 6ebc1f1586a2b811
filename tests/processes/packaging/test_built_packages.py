"""What a user installs: the same bytes from any build, whole, and with each extra exactly what it needs."""

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from tests.support.once import once_per_run
from tests.support.pace import scaled_s
from tests.support.packages import build, link, needed

INBOX = """
from hooklane import Inbox
Inbox("sqlite:///app.db").close()
"""
COMMAND = """
from hooklane.cli.main import run
for command in ("stats", "ls"):
    assert run(["inbox", command, "--store", "sqlite:///app.db", "--json"]) == 0
"""
PROGRAM = """
import subprocess, sys
words = [sys.executable, "-S", "-m", "hooklane", "inbox", "stats", "--store", "sqlite:///app.db", "--json"]
assert subprocess.run(words).returncode == 0
"""
MIGRATE = """
assert run(["migrate", "up", "--db", "sqlite:///server.db"]) == 0
"""
WITH = {
    "": INBOX,
    "cli": INBOX + COMMAND + PROGRAM,
    "fastapi": INBOX + COMMAND + "import hooklane.fastapi",
    "flask": INBOX + COMMAND + "import hooklane.flask",
    "django": INBOX + COMMAND + "import hooklane.django",
    "server": INBOX + COMMAND + MIGRATE,
    "postgres": "import psycopg, hooklane.store.postgres.inbox.store, hooklane.store.postgres.pool",
    "redis": "import redis, hiredis, hooklane.store.redis.store",
    "dynamodb": "import boto3, aiobotocore.session, hooklane.store.dynamodb.store",
    "otel": "import opentelemetry.sdk",
}
"""What works with each extra and nothing else."""
SHARE = ("", "cli", "postgres")
"""Of which `make test` sees that it works: the bare wheel, a command in a process of its own, and a driver."""
WITHOUT = """
import subprocess, sys, importlib
from hooklane import Inbox
from hooklane.errors import MissingExtra
for extra, use in {
    "fastapi": lambda: importlib.import_module("hooklane.fastapi"),
    "flask": lambda: importlib.import_module("hooklane.flask"),
    "django": lambda: importlib.import_module("hooklane.django"),
    "postgres": lambda: Inbox("postgresql://127.0.0.1:1/x"),
    "redis": lambda: Inbox("redis://127.0.0.1:1"),
    "dynamodb": lambda: Inbox("dynamodb://table"),
}.items():
    try:
        use()
    except MissingExtra as error:
        print(extra, error)
sys.stdout.flush()
subprocess.run([sys.executable, "-S", "-m", "hooklane", "version"], stderr=sys.stdout)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist of this tree."""
    return once_per_run(tmp_path_factory, "built", lambda folder: build(folder, "sdist", "wheel"))


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip makes of the wheel, without what it depends on."""

    def install(folder: Path) -> None:
        words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target"]
        (wheel,) = built.glob("*.whl")
        subprocess.run([*words, str(folder), str(wheel)], check=True, capture_output=True, timeout=scaled_s(60))

    return once_per_run(tmp_path_factory, "installed_alone", install)


@pytest.fixture(scope="module")
def requirements(built: Path) -> tuple[list[str], list[str]]:
    """What the wheel says that it depends on, and which extras it has."""
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        (name,) = [one for one in wheel.namelist() if one.endswith(".dist-info/METADATA")]
        told = message_from_string(wheel.read(name).decode("utf-8"))
    return told.get_all("Requires-Dist") or [], told.get_all("Provides-Extra") or []


def run_with(installed: Path, packages: Path, program: str, folder: Path) -> str:
    """What *program* prints in an environment of these packages alone."""
    ended = subprocess.run(
        [sys._base_executable, "-S", "-c", program],
        env={"PATH": os.defpath, "PYTHONPATH": f"{installed}{os.pathsep}{packages}", "LANG": "C.UTF-8"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=scaled_s(60),
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def test_two_builds_of_the_same_files_are_the_same_bytes(built: Path, tmp_path: Path):
    """The second is built elsewhere, from the sdist of the first, by somebody with other times and another umask."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as whole:
        whole.extractall(tmp_path, filter="data")
    (tree,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    for path in tree.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
        path.chmod(path.stat().st_mode & ~0o077)

    build(tmp_path / "again", "sdist", "wheel", tree=tree)

    assert digests(tmp_path / "again") == digests(built)


def test_wheel_and_sdist_carry_the_dashboard_and_nothing_of_this_machine(built: Path):
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as one, tarfile.open(sdist) as other:
        in_wheel, in_sdist = one.namelist(), other.getnames()

    assert wheel.name.endswith("-py3-none-any.whl")
    for names in (in_wheel, in_sdist):
        vendored = [Path(name).name for name in names if "/ui/vendor/" in name]
        assert {"preact.js", "signals.js", "htm.js", "uplot.js", "LICENSES.txt"} <= set(vendored)
        assert [name for name in names if re.search(r"\.venv|node_modules|\.servers|__pycache__|\.db$", name)] == []
    assert all(name.startswith(("hooklane/", "hooklane-")) for name in in_wheel)
    assert "hooklane/py.typed" in in_wheel


@pytest.mark.parametrize(
    "extra", [pytest.param(one, id=one or "bare", marks=[] if one in SHARE else [pytest.mark.soak]) for one in WITH]
)
def test_each_extra_brings_all_that_it_needs(
    extra: str, installed: Path, requirements: tuple[list[str], list[str]], tmp_path: Path
):
    packages = link(needed(requirements[0], extra), tmp_path / "packages")

    run_with(installed, packages, WITH[extra], tmp_path)


def test_all_brings_what_the_extras_bring(requirements: tuple[list[str], list[str]]):
    depends, extras = requirements

    assert set(WITH) == {*extras, ""} - {"all"}
    assert needed(depends, "all") == set().union(*(needed(depends, extra) for extra in WITH))


def test_each_missing_extra_is_named_with_the_command_that_installs_it(
    installed: Path, requirements: tuple[list[str], list[str]], tmp_path: Path
):
    packages = link(needed(requirements[0]), tmp_path / "packages")
    told = run_with(installed, packages, WITHOUT, tmp_path).splitlines()

    for line, extra in zip(told, ["fastapi", "flask", "django", "postgres", "redis", "dynamodb"], strict=False):
        assert re.fullmatch(rf"{extra} \w+ is not installed: run  pip install 'hooklane\[{extra}\]'", line), line
    assert told[6:] == ["hooklane: HL013 the command line is not installed: run  pip install 'hooklane[server]'"]
