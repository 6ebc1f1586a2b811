"""`hooklane types`."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.processes.cli.conftest import Ended

Cli = Callable[..., Ended]


def test_a_type_is_set_piece_by_piece_enforced_and_removed(cli: Cli, db: Path, tmp_path: Path):
    file = tmp_path / "schema.json"
    file.write_text(json.dumps({"type": "object", "required": ["id"]}))
    cli("types", "set", "order.paid", "--description", "An order is paid")
    said = cli("types", "set", "order.paid", "--schema", str(file), "--enforce")
    listed = cli("types", "ls")
    refused = cli("send", "order.paid", "1")
    taken = cli("send", "order.paid", '{"id": 1}')
    removed = cli("types", "rm", "order.paid", "--yes")

    assert said.out == "order.paid is set; schema: enforced\n"
    assert listed.out.splitlines()[1].split(maxsplit=2) == ["order.paid", "enforced", "An order is paid"]
    assert (refused.code, "data of an event order.paid" in refused.err) == (1, True)
    assert (taken.code, removed.code) == (0, 0)
    assert cli("types", "ls", "--json").json["items"] == []


def test_a_file_that_is_no_json_is_told(cli: Cli, db: Path, tmp_path: Path):
    (tmp_path / "schema.json").write_text("{")

    ended = cli("types", "set", "a", "--schema", "schema.json")

    assert (ended.code, len(ended.talk)) == (2, 1)
