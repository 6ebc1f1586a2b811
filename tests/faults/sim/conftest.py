"""Simulated worlds are small and many: looking for cycles among their objects takes a sixth of the time."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_garbage_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()
