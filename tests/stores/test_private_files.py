"""Only its owner reads a database file or what lies beside it: it holds secrets and payloads."""

import logging
import os
import stat
from pathlib import Path

import pytest

from hooklane import Inbox, Outbox
from hooklane.errors import StoreRefused
from hooklane.store.sqlite import database


@pytest.fixture(autouse=True)
def _everybody_may_read():
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: mode(path) for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("made_by", ["sender", "receiver"])
def test_a_new_database_and_all_files_beside_it_are_private(tmp_path: Path, made_by: str):
    folder = tmp_path / "data"
    url = f"sqlite:///{folder}/hooklane.db"
    if made_by == "sender":
        with Outbox(url) as outbox:
            outbox.publish("a", {})
            found = modes(folder)
    else:
        inbox = Inbox(url)
        inbox.source("hooklane", secrets=["whsec_" + "A" * 32])
        inbox.stats()
        found = modes(folder)
        inbox.close()

    assert "hooklane.db" in found
    assert set(found.values()) == {0o600}
    assert mode(folder) == 0o700


def test_a_file_of_before_is_taken_from_others_with_a_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path = tmp_path / "old.db"
    database.connect(str(path)).close()
    path.chmod(0o644)
    with caplog.at_level(logging.WARNING, "hooklane.store"):
        kept = database.connect(str(path))
        kept.execute("CREATE TABLE a (b)")

        assert set(modes(tmp_path).values()) == {0o600}
        assert [record.getMessage() for record in caplog.records] == [
            f"{path} could be read by other users (0644); from now on it is 0600"
        ]
    kept.close()


def test_a_log_of_before_is_taken_from_others_too(tmp_path: Path):
    path = tmp_path / "old.db"
    first = database.connect(str(path))
    first.execute("CREATE TABLE a (b)")
    for file in tmp_path.iterdir():
        file.chmod(0o644)
    second = database.connect(str(path))

    assert modes(tmp_path) == {"old.db": 0o600, "old.db-wal": 0o600, "old.db-shm": 0o600}
    first.close()
    second.close()


def test_a_file_that_is_shared_with_a_group_on_purpose_stays_so(tmp_path: Path):
    path = tmp_path / "shared.db"
    database.connect(str(path)).close()
    path.chmod(0o666)
    database.connect(str(path)).close()

    assert mode(path) == 0o660


def test_a_folder_that_was_there_is_left_as_it_is(tmp_path: Path):
    tmp_path.chmod(0o755)
    database.connect(str(tmp_path / "new.db")).close()

    assert mode(tmp_path) == 0o755


def test_a_file_that_is_no_database_keeps_its_rights(tmp_path: Path):
    path = tmp_path / "hosts"  # a mistyped address, and the whole machine could not read its own names any more
    path.write_text("127.0.0.1 localhost\n")
    path.chmod(0o644)

    with pytest.raises(StoreRefused, match="is not a SQLite database"):
        database.connect(str(path))
    assert (mode(path), path.read_text()) == (0o644, "127.0.0.1 localhost\n")


def test_a_file_of_somebody_else_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "theirs.db"
    database.connect(str(path)).close()
    path.chmod(0o644)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    database.connect(str(path)).close()

    assert mode(path) == 0o644
