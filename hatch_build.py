"""A wheel is pure, as the source is. With HOOKLANE_COMPILE=1 the hot modules are in it as machine code as well."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledWheel(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the extension modules of `tools.compiled` to a wheel for this Python and this platform."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        if not _is_asked():
            return []
        # What the hot modules import, mypyc must know.
        project = self.metadata.core
        theirs = [
            *project.dependencies,
            *project.optional_dependencies["server"],
            *project.optional_dependencies["postgres"],
        ]
        return ["mypy", "setuptools", *(name for name in theirs if not name.startswith(f"{project.name}["))]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or not _is_asked():
            return
        folder = Path(self.root, "build", "compiled")
        subprocess.run([sys.executable, "-m", "tools.compiled", "--must", str(folder)], cwd=self.root, check=True)
        made = [path for pattern in ("*.so", "*.pyd") for path in folder.rglob(pattern)]
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"].update({str(path): path.relative_to(folder).as_posix() for path in made})


def _is_asked() -> bool:
    return os.environ.get("HOOKLANE_COMPILE", "") not in ("", "0")
