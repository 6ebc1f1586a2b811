"""The pytest plugin: the fixture `webhooks`. Nothing else of hooklane is loaded until a test asks for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hooklane.testing.webhooks import Webhooks


@pytest.fixture
def inbox(request: pytest.FixtureRequest) -> Any:
    """The inbox that `webhooks` delivers to. Define your own; without one, that of your Django settings is taken."""
    if "webhooks" not in request.node.fixturenames:  # the test does not use our fixture: as if this were not here
        pytest.fail("fixture 'inbox' not found", pytrace=False)
    if "hooklane.django" not in sys.modules:
        return None
    from hooklane.store.caller import django_settings

    if not django_settings.is_configured():
        return None
    from hooklane.django import inbox

    return inbox()


# It names `inbox` as an argument, so that one that has parameters, or is async, works as with any other fixture.
@pytest.fixture
def webhooks(inbox: Any) -> Iterator[Webhooks]:
    """Correctly signed webhooks for the inbox under test, in copies, at once, out of order, and through crashes.

    The inbox is what your fixture `inbox` gives, or `webhooks.use(inbox)`, or the one of your Django settings.
    """
    from hooklane.testing.webhooks import Webhooks

    with Webhooks(inbox) as kit:
        yield kit
