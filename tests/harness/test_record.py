"""What proof.md says of the recorded soak is what is on record."""

from __future__ import annotations

from tests.faults import record


def test_the_table_in_proof_is_the_record() -> None:
    text = record.PAGE.read_text()

    assert text.split(record.BEGIN)[1].split(record.END)[0].strip() == record.table(), (
        "run python -m tests.faults.record --table"
    )


def test_every_line_on_record_names_a_part_a_seed_and_a_commit_and_none_lost_or_reordered_anything() -> None:
    found = record.lines()

    assert {line["part"] for line in found} <= {part.name for part in record.PARTS}
    assert all(line["seed"] and line["commit"] and line["at"] for line in found)
    assert [line for line in found if line["lost"] or line["reordered"]] == []
    assert [line for line in found if line.get("violations") and "mended" not in line] == []


def test_what_the_record_found_is_held_by_a_test() -> None:
    tests = "".join(file.read_text() for file in (record.ROOT / "tests").rglob("test_*.py"))

    assert [line["mended"] for line in record.lines() if f"def {line.get('mended', '')}" not in tests] == []


def test_no_seed_of_a_part_is_counted_twice() -> None:
    seen = [(line["part"], line["seed"]) for line in record.lines()]

    assert len(seen) == len(set(seen))
