"""All pages of a listing, one after the other, and an end for a listing that has none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from hooklane.store.reads import Page

T = TypeVar("T")

PAGES_MAX = 1_000


async def all_pages(read: Callable[[str | None], Awaitable[Page[T]]]) -> list[T]:
    """The items of every page; *read* gets the cursor of the page before."""
    found: list[T] = []
    cursor: str | None = None
    for _ in range(PAGES_MAX):
        page = await read(cursor)
        found += page.items
        cursor = page.next
        if cursor is None:
            return found
    raise AssertionError(f"after {PAGES_MAX} pages and {len(found)} items there is still a next page")
