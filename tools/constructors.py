"""What does mypyc leave to the interpreter? The constructors of dataclasses, so they are written out beforehand.

`dataclasses` makes `__init__` at run time, as text that is interpreted: of an event's way through the compiled sender
that was a twentieth. Written out in the copy that is compiled, it is a few moves in C. The source stays as it is.
"""

from __future__ import annotations

import ast

_PLAIN = (ast.Constant, ast.Name, ast.Attribute, ast.UnaryOp, ast.Tuple)
"""Defaults that mean the same wherever they are written, and that nobody can change."""


def with_constructors(source: str) -> str:
    """*source*, in which each plain dataclass has the `__init__` that it would have been given, and is copied by it."""
    lines = source.splitlines()
    module = ast.parse(source)
    found = [node for node in module.body if isinstance(node, ast.ClassDef) and _options(node) is not None]
    for node in reversed(found):  # from below, so that nothing above moves
        assert node.end_lineno is not None
        if written := _constructor(node):
            # In place of the empty line that follows, if one does: tracebacks name the lines of the source.
            end = node.end_lineno
            lines[end : end + (not "".join(lines[end : end + 1]).strip())] = [written]
    if found:
        # Pickle and copy make an empty one and fill it in, which a compiled class does not allow.
        names = ", ".join(node.name for node in found)
        lines += ["", "from hooklane.model.copied import copied_whole", "", f"copied_whole({names})"]
    return "\n".join(lines) + "\n"


def _constructor(node: ast.ClassDef) -> str:
    """It, in one line; nothing for a class whose constructor is more than its fields."""
    options = _options(node)
    methods = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
    fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
    if options is None or node.bases or not fields or methods & {"__init__", "__post_init__", "__new__"}:
        return ""
    if not all(_is_plain(field) for field in fields):
        return ""
    indent = " " * node.body[0].col_offset
    allowed = "  # type: ignore[misc]" if "frozen" in options else ""
    parameters = ["self", *(["*"] if "kw_only" in options else []), *map(_parameter, fields)]
    moves = "; ".join(f"self.{_name(field)} = {_name(field)}" for field in fields)
    return f"{indent}def __init__({', '.join(parameters)}) -> None: {moves}{allowed}"


def _options(node: ast.ClassDef) -> set[str] | None:
    """What the dataclass was asked to be; None for any other class."""
    if len(node.decorator_list) != 1:
        return None
    decorator = node.decorator_list[0]
    call = decorator.func if isinstance(decorator, ast.Call) else decorator
    if not (isinstance(call, ast.Name) and call.id == "dataclass"):
        return None
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    if any(one.arg == "init" for one in keywords):
        return None  # it may have none of its own
    return {one.arg for one in keywords if one.arg and isinstance(one.value, ast.Constant) and one.value.value}


def _is_plain(field: ast.AnnAssign) -> bool:
    kind = ast.unparse(field.annotation)
    if not isinstance(field.target, ast.Name) or kind.startswith(("ClassVar", "InitVar", "KW_ONLY")):
        return False
    value = field.value
    if isinstance(value, ast.Call):
        asked = {one.arg for one in value.keywords}
        return ast.unparse(value.func) == "field" and asked <= {"default", "repr", "compare", "hash"}
    return value is None or isinstance(value, _PLAIN)


def _default(field: ast.AnnAssign) -> ast.expr | None:
    if isinstance(field.value, ast.Call):
        return next((one.value for one in field.value.keywords if one.arg == "default"), None)
    return field.value


def _name(field: ast.AnnAssign) -> str:
    assert isinstance(field.target, ast.Name)
    return field.target.id


def _parameter(field: ast.AnnAssign) -> str:
    default = _default(field)
    given = "" if default is None else f" = {ast.unparse(default)}"
    return f"{_name(field)}: {ast.unparse(field.annotation)}{given}"
