"""Mutants: the same module with one small mistake in it.

A comparison turned round or off by one, a condition that always or never holds, `and` for `or`, another number, a call
or an assignment that is left out, an entry that is missing in a table. Left alone is what decides nothing: annotations,
docstrings, asserts, texts of errors, `__repr__`.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from functools import cache
from typing import NamedTuple

from tests.units.mutation.parts import PARTS, SOURCE


class Mutant(NamedTuple):
    """The change *number* of *module*: *what*, in the line *text* of *place* (a function, or a table of the module)."""

    module: str
    number: int
    place: str
    text: str
    what: str
    line: int
    twin: int
    """Which it is of several that read alike."""
    is_table: bool

    @property
    def name(self) -> str:
        """Without the number of its line, which changes with every line above."""
        return f"{self.module} {self.place}: {self.text} ({self.what}{f', {self.twin}' if self.twin > 1 else ''})"


_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OTHER: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_TABLES = (ast.Dict, ast.Tuple, ast.List, ast.Set, ast.Call)


def _never(body: ast.stmt) -> ast.stmt:
    """*body* that does not run. It stays, as a function must go on using the same variables of those around it."""
    return ast.copy_location(ast.If(ast.Constant(False), [body], []), body)


def _holds(test: ast.expr, always: bool) -> ast.expr:
    """*test*, unasked, with a fixed answer."""
    first, join = (ast.Constant(True), ast.Or()) if always else (ast.Constant(False), ast.And())
    return ast.copy_location(ast.BoolOp(join, [first, test]), test)


def _is_entry(argument: ast.expr) -> bool:
    return isinstance(argument, ast.Starred) or (isinstance(argument, ast.Constant) and isinstance(argument.value, str))


def _used_at_once(module: ast.Module) -> set[str]:
    """The names that *module* looks up while it is imported, and not only when a function is called."""
    found: set[str] = set()
    left: list[ast.AST] = [*module.body]
    while left:
        node = left.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            left.extend(ast.iter_child_nodes(node))
    return found


def tables(module: ast.Module) -> list[tuple[str, ast.expr]]:
    """The tables of *module* by their names; not those of which others are made, as they cannot be exchanged alone."""
    parts = _used_at_once(module)
    found: list[tuple[str, ast.expr]] = []
    for one in module.body:
        if isinstance(one, ast.Assign | ast.AnnAssign) and isinstance(one.value, _TABLES):
            target = one.targets[0] if isinstance(one, ast.Assign) else one.target
            if isinstance(target, ast.Name) and target.id != "__all__" and target.id not in parts:
                found.append((target.id, one.value))
    return found


class _Mutator(ast.NodeTransformer):
    """Counts the places for a change, and makes the one whose number is *wanted*."""

    def __init__(self, wanted: int = -1) -> None:
        self.found: list[tuple[int, str, str, bool]] = []
        self._wanted = wanted
        self._around: list[str] = []
        self._is_function = False

    def _here(self, node: ast.AST, what: str) -> bool:
        if not self._is_function:
            return False
        return self._found(node, ".".join(self._around), what)

    def _found(self, node: ast.AST, place: str, what: str) -> bool:
        self.found.append((getattr(node, "lineno", 0), place, what, not self._is_function))
        return len(self.found) - 1 == self._wanted

    # --- where ---

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._around.append(node.name)
        node.body = [self.visit(one) for one in node.body]
        self._around.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        if node.name == "__repr__":
            return node
        was, self._is_function = self._is_function, True
        self._around.append(node.name)
        node.body = [self.visit(one) for one in node.body]
        self._around.pop()
        self._is_function = was
        return node

    # --- tables: entries that are missing, or lead elsewhere ---

    def visit_Module(self, node: ast.Module) -> ast.AST:
        for name, table in tables(node):
            self._table(name, table)
        self.generic_visit(node)
        return node

    def _table(self, name: str, table: ast.expr) -> None:
        if isinstance(table, ast.Dict):
            for place in reversed(range(len(table.keys))):
                others = [one for one in table.values if ast.dump(one) != ast.dump(table.values[place])]
                if others and self._found(table.values[place], name, f"becomes {ast.unparse(others[0])}"):
                    table.values[place] = others[0]
                if self._found(table.values[place], name, "an entry is left out"):
                    del table.keys[place], table.values[place]
                    return
            return
        entries = table.args if isinstance(table, ast.Call) else getattr(table, "elts", [])
        if isinstance(table, ast.Call) and not (len(entries) > 1 and all(map(_is_entry, entries))):
            return  # a call whose arguments have each a meaning of their own
        for entry in list(entries):
            if isinstance(entry, ast.Starred) and isinstance(entry.value, ast.Tuple):
                for inner in list(entry.value.elts):
                    if self._found(inner, name, f"{ast.unparse(inner)} is left out"):
                        entry.value.elts.remove(inner)
            elif self._found(entry, name, f"{ast.unparse(entry)} is left out"):
                entries.remove(entry)

    # --- what decides ---

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        for place, operator in enumerate(node.ops):
            turned = _TURNED.get(type(operator))
            if turned and self._here(node, f"{type(operator).__name__} becomes {turned.__name__}"):
                node.ops[place] = turned()
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if self._here(node, "and becomes or" if isinstance(node.op, ast.And) else "or becomes and"):
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) and self._here(node, "not is left out"):
            return node.operand
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        other = _OTHER.get(type(node.op))
        if other and self._here(node, f"{type(node.op).__name__} becomes {other.__name__}"):
            node.op = other()
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        value = node.value
        if isinstance(value, bool):
            if self._here(node, f"{value} becomes {not value}"):
                return ast.copy_location(ast.Constant(not value), node)
        elif isinstance(value, int) and self._here(node, f"{value} becomes {value + 1}"):
            return ast.copy_location(ast.Constant(value + 1), node)
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        for always in (True, False):
            if self._here(node, f"if {'always' if always else 'never'}"):
                node.test = _holds(node.test, always)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        for always in (True, False):
            if self._here(node, f"{'always' if always else 'never'} the first"):
                node.test = _holds(node.test, always)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        for place, test in enumerate(node.ifs):
            if self._here(test, "a condition is left out"):
                node.ifs[place] = _holds(test, True)
        return node

    # --- what does something ---

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Constant):
            return node  # a docstring
        self.generic_visit(node)
        if isinstance(node.value, ast.Call) and self._here(node, "a call is left out"):
            return _never(node)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        if all(isinstance(one, ast.Attribute | ast.Subscript) for one in node.targets):
            inits = self._around and self._around[-1] == "__init__"  # without it nothing works at all
            if not inits and self._here(node, "an assignment is left out"):
                return _never(node)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if self._here(node, "an assignment is left out"):
            return _never(node)
        return node

    def visit_Delete(self, node: ast.Delete) -> ast.AST:
        return _never(node) if self._here(node, "a deletion is left out") else node

    # --- what does not ---

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return node  # it states what must be true; nothing follows from it

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return node  # its text; that it is raised at all is the condition above it

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node


@cache
def mutants(module: str) -> list[Mutant]:
    """Every change that can be made to *module*."""
    text = (SOURCE / module).read_text()
    mutator = _Mutator()
    mutator.visit(ast.parse(text))
    lines = text.splitlines()
    seen: Counter[tuple[str, str, str]] = Counter()
    found: list[Mutant] = []
    for number, (line, place, what, is_table) in enumerate(mutator.found):
        shown = lines[line - 1].partition("  #")[0].strip()
        seen[place, shown, what] += 1
        found.append(Mutant(module, number, place, shown, what, line, seen[place, shown, what], is_table))
    return found


def mutated(mutant: Mutant) -> ast.Module:
    """The module of *mutant* with its change, each line where it was."""
    tree = ast.parse((SOURCE / mutant.module).read_text())
    _Mutator(mutant.number).visit(tree)
    return ast.fix_missing_locations(tree)


def mutants_of(part: str) -> list[Mutant]:
    return [mutant for module in PARTS[part].modules() for mutant in mutants(module)]


def sample(part: str, many: int, seed: int) -> list[Mutant]:
    """*many* of a part, chosen by *seed*. A change of one line leaves most of the sample as it was."""

    def lot(mutant: Mutant) -> bytes:
        return hashlib.sha256(f"{seed} {mutant.name}".encode()).digest()

    return sorted(sorted(mutants_of(part), key=lot)[:many], key=lambda one: (one.module, one.number))
