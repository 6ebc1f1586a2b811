"""How do the hot modules become machine code? `python -m tools.compiled [FOLDER]` makes a second tree for it.

The tree (build/compiled) is a copy of src/hooklane in which the modules that pyproject.toml names have an extension
module beside their source; Python imports that first. The source stays what one reads and debugs, and nothing is built
inside src/. Where there is no C compiler nothing is built, and the plain source is what runs.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import io
import os
import shutil
import sys
import sysconfig
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tools.constructors import with_constructors

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
TREE = ROOT / "build" / "compiled"
STAMP = ".built-from"
_NAME = "hooklane"
_AS_SHIPPED, _QUICK = "2", "1"
"""How hard the C compiler tries: a tree that is only tested is there sooner. With 0 the simulator ran slower than the
plain source, which cost more than the compiler saved."""
_BARELY, _SIMULATED = "-O0", ("batching", "core", "model", "testing")
"""Where the simulator spends its time; the rest of a quick tree is not optimised at all."""
_ON_LINUX = sys.platform == "linux"
_COMPILER_FLAGS = ["-fno-semantic-interposition"] if _ON_LINUX else []
_LINKER_FLAGS = ["-s", "-Wl,-Bsymbolic"] if _ON_LINUX else []
"""No other library replaces a function of ours: so they call each other directly, not through a table of addresses."""
# The types were checked by `make check`; here mypy only has to know them.
_MYPY_INI = "[mypy]\nignore_missing_imports = True\n"


def modules() -> list[str]:
    """Which modules are compiled, as pyproject.toml lists them."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed: list[str] = table["tool"]["hooklane"]["compiled"]["modules"]
    return listed


def _paths() -> list[str]:
    """Their files, seen from the folder of the package."""
    return [name.replace(".", "/") + ".py" for name in modules()]


def tree() -> Path | None:
    """The compiled tree, if it was built from the sources as they are now, and as it ships."""
    stamp = TREE / STAMP
    return TREE if stamp.exists() and stamp.read_text() == _fingerprint(_AS_SHIPPED) else None


def hindrance() -> str | None:
    """Why nothing can be compiled here, or None."""
    missing = [name for name in ("mypyc", "setuptools") if importlib.util.find_spec(name) is None]
    if missing:
        return f"{' and '.join(missing)} not installed"
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if os.name == "posix" and shutil.which(compiler) is None:
        return f"no C compiler ({compiler})"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "no Python.h"
    return None


def build(folder: Path, level: str) -> list[Path]:
    """Make the tree in *folder*, optimised to *level*; returns its extension modules."""
    # The C files and objects stay beside it: an object is made again only when its C changed.
    work = folder.with_name(f"{folder.name}-c")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(SOURCE / _NAME, folder / _NAME, ignore=shutil.ignore_patterns("__pycache__"))
    for path in map(Path, _paths()):
        (folder / path).write_text(with_constructors((SOURCE / path).read_text()))
    work.mkdir(parents=True, exist_ok=True)
    (work / "mypy.ini").write_text(_MYPY_INI)
    os.chdir(folder)  # tracebacks name the sources by the paths that mypyc was given
    made = [_linked(extension, objects, folder) for extension, objects in _compiled(work, level)]
    (folder / STAMP).write_text(_fingerprint(level))
    return made


def _compiled(work: Path, level: str) -> list[tuple[Any, list[str]]]:
    """Each extension, with its object files."""
    import setuptools  # noqa: F401  # before mypyc, which then builds on it
    from mypyc.build import mypycify

    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            extensions = mypycify(
                ["--config-file", str(work / "mypy.ini"), *_paths()],
                opt_level=level,
                debug_level="0",
                multi_file=True,  # all in one file is hardly faster and takes several times as long to compile
                group_name=_NAME,
                target_dir=str(work),
            )
    except SystemExit:
        print(said.getvalue(), file=sys.stderr)  # besides, it lists what it could do faster
        raise
    headers = hashlib.sha256(b"".join(sorted(path.read_bytes() for path in work.rglob("*.h"))))

    def compiled(extension: Any, source: str) -> str:
        key = headers.copy()
        flags = [*extension.extra_compile_args, *_COMPILER_FLAGS]
        if level == _QUICK and _is_rarely_run(Path(source)):
            flags.append(_BARELY)
        key.update(repr(flags).encode() + Path(source).read_bytes())
        kept = work / f"{Path(source).stem}-{key.hexdigest()[:16]}.o"
        if not kept.exists():
            includes = [*extension.include_dirs, sysconfig.get_path("include")]
            output = str(work / key.hexdigest())
            (made,) = _compiler().compile([source], output_dir=output, include_dirs=includes, extra_postargs=flags)
            Path(made).replace(kept)
            shutil.rmtree(output, ignore_errors=True)
        return str(kept)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [(one, [pool.submit(compiled, one, source) for source in one.sources]) for one in extensions]
        made = [(extension, [job.result() for job in mine]) for extension, mine in jobs]
    used = {Path(one) for _, objects in made for one in objects}
    for old in set(work.glob("*.o")) - used:
        old.unlink()
    return made


def _is_rarely_run(source: Path) -> bool:
    of_ours = f"__native_{_NAME}___"  # and not the runtime of mypyc
    return source.stem.startswith(of_ours) and not source.stem.startswith(tuple(of_ours + one for one in _SIMULATED))


def _linked(extension: Any, objects: list[str], folder: Path) -> Path:
    target = folder / (extension.name.replace(".", "/") + sysconfig.get_config_var("EXT_SUFFIX"))
    _compiler().link_shared_object(objects, str(target), extra_postargs=_LINKER_FLAGS)
    return target


def _compiler() -> Any:
    from distutils import ccompiler  # setuptools' own, which is there for every Python
    from distutils.sysconfig import customize_compiler

    compiler = ccompiler.new_compiler()
    customize_compiler(compiler)
    return compiler


def _fingerprint(level: str) -> str:
    """Of all that the tree is made from."""
    found = hashlib.sha256(f"{sys.version} {sysconfig.get_config_var('EXT_SUFFIX')} {level}".encode())
    files = [path for path in (SOURCE / _NAME).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    tools = [Path(__file__), Path(__file__).with_name("constructors.py")]
    for path in sorted([*files, ROOT / "pyproject.toml", *tools]):
        found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return found.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.compiled", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=TREE)
    parser.add_argument("--must", action="store_true", help="fail where nothing can be compiled")
    parser.add_argument("--quick", action="store_true", help="for tests: hardly optimised, and sooner there")
    asked = parser.parse_args()
    level = _QUICK if asked.quick else _AS_SHIPPED
    folder = asked.folder.resolve()
    reason = hindrance()
    if reason is not None:
        shutil.rmtree(folder, ignore_errors=True)  # one of another day would be taken for this source
        if asked.must:
            sys.exit(f"not compiled: {reason}")
        print(f"not compiled, the plain source is used: {reason}")
        return
    stamp = folder / STAMP
    if stamp.exists() and stamp.read_text() == _fingerprint(level):
        print(f"compiled already: {len(modules())} modules")
        return
    made = build(folder, level)
    print(f"compiled: {len(made) - 1} modules")


if __name__ == "__main__":
    main()
