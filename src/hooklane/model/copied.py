"""How is a compiled value copied or pickled? Made anew from its fields: it cannot be made empty and filled in later.

`tools.constructors` says so for each dataclass that is compiled; the others need nothing.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any


def copied_whole(*kinds: type[Any]) -> None:
    """Values of these dataclasses may be copied and pickled."""
    for kind in kinds:
        copyreg.pickle(kind, _parts)


def _parts(value: Any) -> tuple[Callable[[], Any], tuple[()]]:
    return partial(value.__class__, **{field.name: getattr(value, field.name) for field in fields(value)}), ()
