"""The page of public names: their signatures and docstrings, as Python has them."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from typing import Any

from tools.reference_table import WRITTEN, table

import hooklane

SUBMODULES = ("asgi", "fastapi", "flask", "django", "aws_lambda", "testing")
"""Beside `hooklane` itself, what users import."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def python_api() -> str:
    parts = [
        f"""{WRITTEN}# Python API

These names stay: what is not on this page may change in any version. Import them from where they stand here. `hooklane`
loads each on first use, so a receiver does not pay for the sender.
"""
    ]
    parts.append("## `hooklane`\n")
    names = [name for name in sorted(hooklane.__all__, key=str.lower) if name not in ("__version__", "errors")]
    parts += ["\n".join(_described(name, getattr(hooklane, name), level=3)) for name in names]
    raised = "Each is raised on purpose, and its type says whose fault it is: [errors](errors.md#exceptions)."
    parts.append(f"## `hooklane.errors`\n\n{raised}\n")
    parts += ["\n".join(_module(f"hooklane.{module}")) for module in SUBMODULES]
    return _ADDRESS.sub("", "\n".join(parts))


def _module(name: str) -> Iterator[str]:
    module = importlib.import_module(name)
    yield f"## `{name}`\n"
    if module.__doc__:
        yield f"{inspect.cleandoc(module.__doc__)}\n"
    for public in _public(module):
        yield from _described(public, getattr(module, public), level=3)


def _public(module: Any) -> list[str]:
    if hasattr(module, "__all__"):
        return sorted(module.__all__, key=str.lower)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    )


def _described(name: str, value: Any, *, level: int) -> Iterator[str]:
    yield f"{'#' * level} `{name}`\n"
    signature = _signature(getattr(value, "statement", value))
    if signature and not _is_protocol(value):
        if hasattr(value, "statement"):  # a write on the handler's connection, which comes first
            signature = f"(tx, {signature[1:]}"
        yield f"```text\n{name}{signature}\n```\n"
    if text := docstring(value):
        yield f"{text}\n"
    if inspect.isclass(value) and not issubclass(value, BaseException | enum.Enum):
        rows = list(_members(value))
        if rows:
            yield table(("member", "what"), rows) + "\n"


def _is_protocol(value: Any) -> bool:
    return bool(getattr(value, "_is_protocol", False)) or typing.get_origin(value) is not None


def _signature(value: Callable[..., Any]) -> str:
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    shown = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values() if p.name != "self"]
    shown = [p.replace(default=_Shown(p.default)) if p.default is not inspect.Parameter.empty else p for p in shown]
    return str(inspect.Signature(shown))


class _Shown:
    """A default value as a reader would write it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        if inspect.isfunction(self.value) or inspect.isbuiltin(self.value):
            return str(self.value.__name__)
        return repr(self.value.value if isinstance(self.value, enum.Enum) else self.value)


def docstring(value: Any) -> str:
    text = inspect.cleandoc(getattr(value, "__doc__", None) or "")
    if dataclasses.is_dataclass(value) and text.startswith(f"{getattr(value, '__name__', '')}("):
        return ""  # made by dataclass, and says no more than the signature
    return text


def _members(value: type) -> Iterator[tuple[str, str]]:
    for name, member in vars(value).items():
        if name.startswith("_"):
            continue
        if inspect.isfunction(member):
            kind = "await " if inspect.iscoroutinefunction(member) else ""
            yield f"`{kind}{name}{_signature(member)}`", " ".join(docstring(member).split())
        elif isinstance(member, property):
            yield f"`{name}`", " ".join(docstring(member).split())
