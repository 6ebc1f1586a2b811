"""Records the playground's scenarios for pages without a server: `python -m tools.record_traces FOLDER`.

The folder gets one JSON file a scenario, made by the same engine as everywhere else, and the player beside them. How a
page plays one is in docs/how-to/playground.md: one element and one script.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import msgspec

from hooklane.testing.play import SCENARIOS, Play, play

ROOT = Path(__file__).resolve().parents[1]
PLAYER = ("player.js", "trace_model.js", "player.css")
SEED = 1


def record(folder: Path) -> list[Path]:
    """Every scenario's own story, as a file each; the paths of what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for scenario in SCENARIOS:
        path = folder / f"{scenario.name}.json"
        path.write_bytes(msgspec.json.encode(play(Play(scenario=scenario.name, seed=SEED))))
        written.append(path)
    ui = ROOT / "src" / "hooklane" / "server" / "ui"
    return [*written, *(Path(shutil.copy(ui / name, folder / name)) for name in PLAYER)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Record the playground's scenarios for a site without a server.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "traces")
    for path in record(parser.parse_args().folder):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
