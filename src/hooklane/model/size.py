"""Numbers as people read them: of bytes, and of things."""

from __future__ import annotations


def counted(many: int, one: str, more: str | None = None) -> str:
    """*many* with its noun: `1 event`, `2 events`, `1 try`, `2 tries`."""
    return f"{many:,} {one if many == 1 else more or f'{one}s'}"


def size_text(many: int) -> str:
    """*many* bytes in the largest unit that leaves at least one: `700 bytes`, `272 KiB`, `1.5 MiB`."""
    if many < 1024:
        return f"{many} {'byte' if many == 1 else 'bytes'}"
    size, unit = many / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.1f}".removesuffix(".0") + f" {unit}"


def size_beside(many: int, most: int) -> str:
    """*many* bytes, told beside *most*: byte by byte where both would read alike."""
    return f"{many} bytes" if size_text(many) == size_text(most) else size_text(many)
