import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.processes import Child, ProcessFailed, free_port, http_status, start_listening, until
from tests.support.tree import ROOT

SERVE = """
import http.server, sys
print("listening soon", flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()
"""
CHATTER = "import time\nfor n in range(40_000): print('tick', n, flush=True); time.sleep(0.005)"
WITH_CHILD = """
import subprocess, sys, time
print("child", subprocess.Popen(["sleep", "60"]).pid, flush=True)
time.sleep(60)
"""


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def serve(folder: Path) -> Callable[[int], Child]:
    return lambda port: Child(python(SERVE, str(port)), log=folder / "log", cwd=folder)


def test_a_server_is_waited_for_until_it_answers(tmp_path: Path) -> None:
    child, port = start_listening(serve(tmp_path), lambda it, at: it.wait_for_http(f"http://127.0.0.1:{at}/"))
    with child:
        assert "listening soon" in child.output()
        assert child.wait_for_http(f"http://127.0.0.1:{port}/nothing", status=404) == 404

    assert http_status(f"http://127.0.0.1:{port}/") is None
    assert not is_running(child.pid)


def test_a_server_that_lost_its_port_gets_another(tmp_path: Path) -> None:
    def ready(child: Child, port: int) -> None:
        child.wait_for_http(f"http://127.0.0.1:{port}/none", status=404)

    def in_the_way(port: int) -> Child:
        ports.append(port)
        return serve(tmp_path)(taken if len(ports) == 1 else port)

    ports: list[int] = []
    first, taken = start_listening(serve(tmp_path), ready)
    with first:
        second, port = start_listening(in_the_way, lambda it, at: it.wait_for_http(f"http://127.0.0.1:{at}/"))
        with second:
            assert len(ports) == 2
            assert port != taken


def test_a_child_that_ends_early_is_reported_with_its_last_words(tmp_path: Path) -> None:
    with (
        Child(python("print('no such setting'); exit(3)"), log=tmp_path / "log") as child,
        pytest.raises(ProcessFailed, match=r"(?s)ended with 3 before a line like 'ready'.*no such setting"),
    ):
        child.wait_for_line("ready")


def test_waiting_in_vain_has_a_bound(tmp_path: Path) -> None:
    with (
        Child(python("import time; time.sleep(60)"), log=tmp_path / "log") as child,
        pytest.raises(ProcessFailed, match=r"waited \d[\d.]* s in vain for a line like 'ready'"),
    ):
        child.wait_for_line("ready", within_s=0.05)


def test_a_frozen_child_does_nothing_until_it_thaws(tmp_path: Path) -> None:
    with Child(python(CHATTER), log=tmp_path / "log") as child:
        child.wait_for_line("tick 3")
        child.freeze()
        frozen = child.output()
        with pytest.raises(ProcessFailed):
            child.wait_until(lambda: child.output() != frozen, what="a tick", within_s=0.1)
        child.thaw()

        child.wait_until(lambda: child.output() != frozen, what="a tick")


def test_a_killed_child_is_reaped_and_its_signal_known(tmp_path: Path) -> None:
    with Child(python(CHATTER), log=tmp_path / "log") as child:
        child.wait_for_line("tick")
        child.kill()

        assert child.returncode == -signal.SIGKILL
    assert not Path(f"/proc/{child.pid}").exists()


def test_a_child_that_is_asked_to_end_gives_its_status(tmp_path: Path) -> None:
    polite = "import signal\nsignal.signal(15, lambda *_: exit(7))\nprint('up', flush=True)\nwhile 1: signal.pause()"
    with Child(python(polite), log=tmp_path / "log") as child:
        child.wait_for_line("up")

        assert child.stop() == 7


def test_closing_ends_the_children_of_the_child(tmp_path: Path) -> None:
    with Child(python(WITH_CHILD), log=tmp_path / "log") as child:
        grandchild = int(child.wait_for_line(r"child (\d+)")[1])
        assert is_running(grandchild)

    until(lambda: not is_running(grandchild), what="the grandchild to end")


def test_nothing_outlives_a_test_process_that_is_killed(tmp_path: Path) -> None:
    root = ROOT
    owner = f"""
import sys, time
from pathlib import Path
from tests.support.leftovers import scratch_folder
from tests.support.processes import Child
with scratch_folder(in_memory=True) as folder:
    child = Child(["sleep", "60"], log=Path({str(tmp_path / "inner")!r}))
    frozen = Child(["sleep", "60"], log=Path({str(tmp_path / "inner")!r}))
    frozen.freeze()
    print("owns", child.pid, frozen.pid, folder, flush=True)
    time.sleep(60)
"""
    with Child(python(owner), log=tmp_path / "log", cwd=root) as child:
        found = child.wait_for_line(r"owns (\d+) (\d+) (\S+)")
        pids, folder = [int(found[1]), int(found[2])], Path(found[3])
        assert all(is_running(pid) for pid in pids)
        assert folder.is_dir()
        os.kill(child.pid, signal.SIGKILL)

        until(lambda: not any(is_running(pid) for pid in pids), what="the children to end")
        until(lambda: not folder.exists(), what="the folder to go")


def test_free_ports_are_free() -> None:
    assert http_status(f"http://127.0.0.1:{free_port()}/") is None
