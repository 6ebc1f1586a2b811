"""Django's own connection, in a process of its own: Django can be configured only once in each."""

import os
import subprocess
import sys
from urllib.parse import urlsplit

import msgspec
import pytest
from tests.support.pace import scaled_s
from tests.support.tree import ROOT


def outcomes(*arguments: str) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.django_caller", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=scaled_s(60),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = {}
    for line in done.stdout.splitlines():
        found |= msgspec.json.decode(line, type=dict[str, str])
    return found


@pytest.mark.parametrize("driver", ["sqlite3", "psycopg", "psycopg2"])
def test_a_publish_is_part_of_djangos_atomic_block(driver: str, request: pytest.FixtureRequest) -> None:
    if driver == "sqlite3":
        arguments = ["sqlite3", str(request.getfixturevalue("sqlite_url")).removeprefix("sqlite:///")]
    else:
        url = urlsplit(request.getfixturevalue("noted_postgres_url"))
        server = [str(url.hostname), str(url.port), str(url.username)]
        arguments = ["postgresql", url.path.strip("/"), *server, *(["--psycopg2"] if driver == "psycopg2" else [])]

    found = outcomes(*arguments)

    assert {promise: words for promise, words in found.items() if words != "ok"} == {}
    assert len(found) == {"sqlite3": 14, "psycopg": 15, "psycopg2": 14}[driver]
