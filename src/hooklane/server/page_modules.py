"""Which modules does a screen of the dashboard need? All of them are named in the page's head, to be fetched at once.

Otherwise a browser learns of a module only when it has read the one that imports it, and on /lanes that is five trips
to the server, one after the other, before the first lane is drawn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from posixpath import dirname, join, normpath

START = "main.js"
_IMPORT = re.compile(rb"""(?:^|[;\n])(?:import|export)\b[^;"']*?\bfrom\s*["'](\.[^"']+)["']""")
_SCREEN = re.compile(rb"""\bpath:\s*"([^"]+)".*\bimport\("(\./[^"]+)"\)""")


def modules_of(files: Mapping[str, bytes], screen: str, *more: str) -> list[str]:
    """The modules that are there before *screen* (`/lanes`, `/events/{id}`) is drawn, those that import others last.

    *more*: what the screen imports later, and shows at once this time.
    """
    found: dict[str, None] = {}
    for name in (START, screens_of(files).get(screen, START), *more):  # an address such as `/portal` has no screen
        _visit(files, name, found)
    return [name for name in found if name != START]


def _visit(files: Mapping[str, bytes], name: str, found: dict[str, None]) -> None:
    if name in found or name not in files:
        return
    found[name] = None
    for other in imports_of(name, files[name]):
        _visit(files, other, found)
    del found[name]
    found[name] = None  # behind what it imports


def imports_of(name: str, content: bytes) -> Iterable[str]:
    """The files that the module *name* imports, whether or not it comes to use them; `import()` is not among them."""
    return [normpath(join(dirname(name), one.decode())) for one in _IMPORT.findall(content)]


def screens_of(files: Mapping[str, bytes]) -> dict[str, str]:
    """By address (`/events/{id}`), the module of each screen, as the table in main.js has them."""
    return {
        re.sub(r":(\w+)", r"{\1}", path.decode()): normpath(module.decode())
        for path, module in _SCREEN.findall(files[START])
    }
