"""The README, followed as printed by a person with an empty folder and the built wheel (tests/support/printed.py)."""

from __future__ import annotations

import http.client
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.pace import scaled_ms, scaled_s
from tests.support.printed import (
    RECEIVER_PORT,
    START_S,
    Person,
    blocks,
    chosen_ports,
    environment,
    not_shown,
    packages_of,
    unseen,
    with_ports,
)
from tests.support.processes import Child, free_port, http_status, until
from tests.support.tree import ROOT
from tools.animated_webp import Frame, animated, chunks

README = (ROOT / "README.md").read_text("utf-8")


@pytest.fixture
def ports(running: ExitStack) -> dict[int, int]:
    return chosen_ports(running)


@pytest.fixture
def person(tmp_path: Path, ports: dict[int, int], running: ExitStack, wheels: Path) -> Person:
    """In an empty folder; pip finds the built wheel, and what it depends on is there already."""
    folder = tmp_path / "empty"
    folder.mkdir()
    packages = packages_of("run.lock", tmp_path / "packages")
    return Person(folder, environment(tmp_path, ports, packages, wheels), running)


# --- the promises ---


def test_the_readme_can_be_followed_as_printed_from_an_empty_folder(person: Person, ports: dict[int, int]):
    *steps, goodbye = blocks(with_ports(README, ports))

    for step in steps:
        person.follow(step)

    # What was seen is true: five copies had one effect, and each event of the sender arrived once and in order.
    with sqlite3.connect(person.folder / "receiver.db") as db:
        effects = db.execute("SELECT id, state FROM orders ORDER BY rowid").fetchall()
    db.close()
    assert effects == [(1, "order.created"), (7, "order.created"), (7, "order.paid"), (7, "order.shipped")]
    # The handler that failed was told of at once, by its first attempt.
    failed = re.search(r"attempt=1 status=failed .*lag_ms=(\d+)", person.shell.output())
    assert failed is not None
    assert int(failed[1]) < scaled_ms(2_000)
    # They were signed: the receiver takes nothing else.
    assert post_unsigned(ports[RECEIVER_PORT]) == 401
    # The wheel did this, and not the source.
    (installed,) = person.folder.glob(".venv/lib/python*/site-packages/hooklane/__init__.py")
    assert not installed.is_symlink()
    assert "Traceback" not in person.shell.output()

    person.follow(goodbye)

    for port in ports.values():
        until(lambda port=port: http_status(f"http://127.0.0.1:{port}/") is None, what=f"port {port} to be free again")


def post_unsigned(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=scaled_s(10))
    try:
        connection.request("POST", "/webhooks/hooklane", b'{"id":"evt_1","type":"order.created","data":{"id":9}}')
        return connection.getresponse().status
    finally:
        connection.close()


def test_every_block_of_the_readme_is_one_that_is_followed():
    found = blocks(README)

    assert {block.language for block in found} == {"python", "sh"}
    programs = [block.text for block in found if block.language == "python"]
    assert [text.partition("\n")[0] for text in programs] == ["# receiver.py", "# sender.py"]
    # Short: without the table, which an application has already, eight lines and six.
    assert [len(re.findall(r"^(?!#|.*CREATE TABLE)\s*\S", text, re.MULTILINE)) for text in programs] == [8, 6]


def test_the_pictures_of_the_readme_are_there_for_light_and_dark():
    shown = re.findall(r'(?:srcset|src)="([^"]+)"|!\[[^\]]*\]\(([^)]+)\)', README)

    assert {"docs/images/lanes-light.webp", "docs/images/lanes-dark.webp"} <= {one or other for one, other in shown}
    assert [name for pair in shown for name in pair if name and not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_board_moves_in_the_readme_for_some_seconds_and_is_quickly_loaded(theme: str):
    picture = (ROOT / "docs" / "images" / f"lanes-moving-{theme}.webp").read_bytes()
    frames = [data for name, data in chunks(picture) if name == b"ANMF"]
    shown_ms = sum(int.from_bytes(data[12:15], "little") for data in frames)

    assert f"lanes-moving-{theme}.webp" in README
    assert len(picture) < 1_000_000
    assert len(frames) > 10
    assert 8_000 < shown_ms < 20_000


def test_frames_become_a_picture_that_moves_with_each_at_its_place_and_for_its_time():
    still = b"RIFF" + (4 + 8 + 3 + 1).to_bytes(4, "little") + b"WEBP" + b"VP8 " + (3).to_bytes(4, "little") + b"abc\0"

    moving = animated([Frame(0, 0, 640, 400, 350, still), Frame(20, 40, 100, 60, 1500, still)])

    header, loop, first, second = chunks(moving)
    assert len(moving) == int.from_bytes(moving[4:8], "little") + 8
    assert (header[0], header[1][4:7], header[1][7:10]) == (b"VP8X", b"\x7f\x02\x00", b"\x8f\x01\x00")
    assert loop[0] == b"ANIM"
    assert [int.from_bytes(data[12:15], "little") for _, data in (first, second)] == [350, 1500]
    assert [int.from_bytes(second[1][at : at + 3], "little") for at in (0, 3, 6, 9)] == [10, 20, 99, 59]
    assert second[1][16:] == b"VP8 \x03\0\0\0abc\0"


def test_an_output_that_is_not_the_printed_one_is_found():
    shown = ("evt_01m7mxyyk6epbjeb15dj0f6azt  #1  ✓ 200 stored    20 ms", "1 stored")
    real = "evt_01m7mxz0mmwx80azd39cx444v3  #1  ✓ 200 stored     7 ms"

    assert unseen(shown, [real, "a server's line", "1 stored"]) == []
    assert unseen(shown, [real.replace("#1", "#2"), "1 stored"]) == list(shown)
    assert unseen(shown, [real, "2 stored"]) == ["1 stored"]
    assert not_shown(shown, [real, "a warning", "1 stored"]) == ["a warning"]
    assert not_shown(shown, [real, "1 stored", "1 stored"]) == ["1 stored"]
    assert not_shown(shown, [real, "handled attempt=2 status=failed", "1 stored"]) == []


def test_make_run_takes_another_port_and_says_how_to_choose_one(tmp_path: Path):
    port = free_port()
    words = ["make", f"VENV={sys.prefix}", "-o", f"{sys.prefix}/.installed-run", "run"]
    arguments = f"ARGS=--port {port} --no-open --db sqlite:///{tmp_path}/dev.db"

    with Child([*words, arguments], log=tmp_path / "make.log", cwd=ROOT) as child:
        child.wait_for_line(rf"Dashboard +http://127\.0\.0\.1:{port}$", within_s=START_S)
        os.killpg(child.pid, signal.SIGINT)
        child.wait(within_s=START_S)

    assert 'another port: make run ARGS="--port 8790"' in child.output()


def test_make_run_says_what_it_does_while_it_installs():
    words = ["make", "--dry-run", "--always-make", f"VENV={ROOT / 'nowhere'}", "run"]
    told = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True, timeout=scaled_s(20)).stdout

    steps = re.findall(r'^echo "hooklane: (\w+)', told, re.MULTILINE)
    assert steps == ["making", "installing", "installing", "starting"]
