"""A sender on each store that can deliver."""

from __future__ import annotations

import pytest
from tests.support.running_sender import running_sender
from tests.support.sqlite_files import new_outbox_file


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return new_outbox_file(tmp_path / "hooklane.db")


@pytest.fixture
async def sender(store_url):
    async with running_sender(store_url) as one:
        yield one
