"""A name means one thing: no two modules of a half define a public class of the same name."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import hooklane

TREE = Path(hooklane.__file__).parent


def classes_defined_twice(folder: Path) -> dict[str, list[str]]:
    """Public classes by name, with the modules below *folder* that define them, where there are several."""
    homes: dict[str, list[str]] = defaultdict(list)
    for module in sorted(folder.rglob("*.py")):
        for node in ast.parse(module.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(module.relative_to(folder)))
    return {name: modules for name, modules in homes.items() if len(modules) > 1}


@pytest.mark.parametrize("half", ["sender", "receiver", "server"])
def test_no_public_class_has_the_name_of_another(half: str) -> None:
    assert classes_defined_twice(TREE / half) == {}


def test_a_class_that_is_defined_twice_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class Mark: ...\nclass _Mark: ...\nclass Alone: ...\n")
    (tmp_path / "two.py").write_text("class Mark: ...\nclass _Mark: ...\n")

    assert classes_defined_twice(tmp_path) == {"Mark": ["one.py", "two.py"]}
