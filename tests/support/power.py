"""Power cuts: what a disk would hold if the power had failed at some moment of a run.

Processes run under power_shim.c, which tells all that they do to their files. `Disk` reads that and keeps what was
synced apart from what was not. A cut keeps what was synced; of the rest it keeps any sectors, or none, or half a page.
Names (what was created, renamed, removed) are kept in order, as a journal does: all that came before the last sync, and
some of what came after it.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.pace import scaled_s

SOURCE = Path(__file__).with_name("power_shim.c")
RECORD = struct.Struct("=IIIIQQ")
SECTOR = 512


class PowerShim:
    """`env` makes a process, and what it starts, tell `log` all that it does to files in *folder*."""

    def __init__(self, library_folder: Path, folder: Path, log: Path) -> None:
        library = library_folder / "power_shim.so"
        if not library.exists():
            command = ["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE]
            subprocess.run(command, check=True, timeout=scaled_s(60))
        self.log = log
        log.touch(mode=0o666)
        log.chmod(0o666)  # PostgreSQL may run as another user
        self.env = {"LD_PRELOAD": str(library), "POWER_SHIM_FOLDER": str(folder), "POWER_SHIM_LOG": str(log)}

    @property
    def told(self) -> int:
        """How long the log is: a moment of the run."""
        return self.log.stat().st_size


@dataclass(slots=True)
class Op:
    """One thing that was done; *at* is the moment after it."""

    kind: str
    inode: int
    offset: int
    first: bytes
    second: bytes
    at: int


def ops_of(log: Path) -> Iterator[Op]:
    with log.open("rb") as source:
        at = 0
        while len(head := source.read(RECORD.size)) == RECORD.size:
            kind, first, second, _, inode, offset = RECORD.unpack(head)
            body = source.read(first + second)
            if len(body) < first + second:
                return
            at += RECORD.size + len(body)
            yield Op(chr(kind), inode, offset, body[:first], body[first:], at)


@dataclass(slots=True)
class File:
    """What was synced of a file, and what came after."""

    synced: bytearray = field(default_factory=bytearray)
    later: list[Op] = field(default_factory=list)
    stood_at: Path | None = None
    """Where the copy from before the run has it, as long as it is unchanged."""

    def take(self, op: Op) -> None:
        self.later.append(op)
        self.stood_at = None

    def sync(self) -> None:
        for op in self.later:
            apply(self.synced, op)
        self.later.clear()

    def after_a_cut(self, chance: random.Random) -> bytes | bytearray:
        """What was synced, and whichever sectors of the rest the disk got to. Mostly an early part of them."""
        if not self.later:
            return self.synced
        content = bytearray(self.synced)
        share = chance.choice((0.0, 0.5, 1.0, chance.random()))
        upto = chance.choice((len(self.later), chance.randint(0, len(self.later))))
        for op in self.later[:upto]:
            if op.kind != "W":
                if chance.random() < share:
                    apply(content, op)
                continue
            for start in range(0, len(op.first), SECTOR):
                if chance.random() < share:
                    put(content, op.offset + start, op.first[start : start + SECTOR])
        return content


def apply(content: bytearray, op: Op) -> None:
    if op.kind == "W":
        put(content, op.offset, op.first)
    elif op.kind == "T":
        del content[op.offset :]
        extend(content, op.offset)
    elif op.kind == "E":
        extend(content, op.offset)


def put(content: bytearray, offset: int, data: bytes) -> None:
    extend(content, offset)
    content[offset : offset + len(data)] = data


def extend(content: bytearray, size: int) -> None:
    if len(content) < size:
        content.extend(bytes(size - len(content)))


class Disk:
    """Follows a run, from a copy of the folder that was made before it."""

    def __init__(self, folder: Path, before: Path) -> None:
        self._folder = folder
        self._before = before
        self._files: dict[int, File] = {}
        self._synced_names: dict[Path, int | None] = {}
        """By path below the folder: the inode; None for a folder. What stands only in the copy is not in it."""
        self._gone: set[Path] = set()
        self._later_names: list[Op] = []
        self._names: dict[Path, int | None] = {}
        """As the processes saw it."""
        self._removed: set[Path] = set()

    def take(self, op: Op) -> None:
        """One more thing was done."""
        if op.kind in "WTE":
            self._files.setdefault(op.inode, File()).take(op)
        elif op.kind == "S":
            for name in self._later_names:
                rename(self._synced_names, self._gone, name, self._path)
            self._later_names.clear()
            if op.inode in self._files:
                self._files[op.inode].sync()
        elif op.kind == "O":
            path = self._path(op.first)
            known = self._names.get(path)
            if known == op.inode:
                return
            if op.inode not in self._files:
                stood = known is not None and known < 0
                self._files[op.inode] = self._files[known] if stood and known else self._before_the_run(path)
            self._name(op)
        else:
            if op.kind in "RL" and (path := self._path(op.first)) not in self._names:
                self._found(path)
            self._name(op)

    def _name(self, op: Op) -> None:
        rename(self._names, self._removed, op, self._path)
        self._later_names.append(op)

    def _path(self, told: bytes) -> Path:
        return Path(os.path.normpath(told.decode())).relative_to(self._folder)

    def _before_the_run(self, path: Path) -> File:
        """The file as it stood before; an empty one if it is new."""
        old = self._before / path
        if path in self._removed or not old.is_file():
            return File()
        return File(bytearray(old.read_bytes()), stood_at=path)

    def _found(self, path: Path) -> None:
        """A file is given another name that no process has opened so far: it has no inode that we know."""
        if path not in self._removed and (self._before / path).is_file():
            unknown = -1 - len(self._files)
            self._files[unknown] = self._before_the_run(path)
            self._names[path] = self._synced_names[path] = unknown

    def cut(self, into: Path, chance: random.Random) -> None:
        """Make *into* what the disk holds after a power cut now."""
        names, gone = dict(self._synced_names), set(self._gone)
        for op in self._later_names[: chance.randint(0, len(self._later_names))]:
            rename(names, gone, op, self._path)
        shutil.rmtree(into, ignore_errors=True)
        copy(self._before, into)
        for path in sorted(gone, reverse=True):
            if (into / path).is_dir():
                shutil.rmtree(into / path, ignore_errors=True)
            else:
                (into / path).unlink(missing_ok=True)
        owner = self._before.stat()
        for path, inode in sorted(names.items()):
            place = into / path
            if inode is None:
                place.mkdir(mode=0o700, exist_ok=True)
            elif self._files[inode].stood_at == path:
                continue
            elif place.parent.is_dir():
                place.write_bytes(self._files[inode].after_a_cut(chance))
                place.chmod(0o600)
            if place.exists():
                os.chown(place, owner.st_uid, owner.st_gid)


def copy(folder: Path, to: Path) -> None:
    subprocess.run(["cp", "-a", str(folder), str(to)], check=True)


def rename(names: dict[Path, int | None], gone: set[Path], op: Op, path_of: object) -> None:
    """What one op on names does to them."""
    assert callable(path_of)
    path: Path = path_of(op.first)
    if op.kind == "O":
        names[path] = op.inode
        gone.discard(path)
    elif op.kind == "M":
        names[path] = None
    elif op.kind in "UD":
        names.pop(path, None)
        gone.add(path)
    elif op.kind in "RL":
        to: Path = path_of(op.second)
        below = [one for one in names if one == path or path in one.parents]
        for one in below:
            names[to / one.relative_to(path)] = names[one]
            if op.kind == "R":
                del names[one]
        if op.kind == "R":
            gone.add(path)
        gone.discard(to)
        if not below:
            gone.add(to)  # of a file that nobody told of: it stands nowhere
