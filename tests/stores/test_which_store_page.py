"""The page "Which store?" says what the code says."""

import importlib.util

from tests.support.tree import ROOT

SCRIPT = ROOT / "docs" / "how-to" / "which_store_table.py"


def test_the_table_of_capabilities_is_the_one_that_the_stores_tell() -> None:
    spec = importlib.util.spec_from_file_location("which_store_table", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)

    assert script.page() == script.PAGE.read_text("utf-8"), f"run: python {SCRIPT}"
