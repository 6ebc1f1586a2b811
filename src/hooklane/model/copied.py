"""How is a frozen value copied or pickled? Made anew from its fields: a compiled one refuses to be filled in later."""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any


def copied_whole(*kinds: type[Any]) -> None:
    """Values of these frozen dataclasses may be copied and pickled, whether their module was compiled or not."""
    for kind in kinds:
        copyreg.pickle(kind, _parts)


def _parts(value: Any) -> tuple[Callable[[], Any], tuple[()]]:
    return partial(value.__class__, **{field.name: getattr(value, field.name) for field in fields(value)}), ()
