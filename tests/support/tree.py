"""Where the repository lies, and from where the hooklane under test is imported: its source, or the compiled tree."""

from pathlib import Path

import hooklane

ROOT = Path(__file__).resolve().parents[2]
SOURCE = str(Path(hooklane.__file__).resolve().parents[1])
