"""Is the server on this machine ready? `python -m hooklane.cli.ready`: for probes of containers, which have no key.

It asks the server beside it for `/readyz`, with the key that the server has, and ends with 0, or with 1 and the reason.
It starts in a fraction of what a command takes: a probe runs every few seconds.
"""

from __future__ import annotations

import http.client
import os
import sys
from collections.abc import Mapping
from pathlib import Path

WITHIN_S = 4.0
DEFAULT_PORT = 8787


def why_not_ready(environ: Mapping[str, str]) -> str | None:
    """None when it is ready."""
    told = environ.get("HOOKLANE_PORT", "")
    port = int(told) if told.isdecimal() else DEFAULT_PORT  # Kubernetes may have set it: `_is_service_link`
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN_S)
    try:
        connection.request("GET", "/readyz", headers=_key(environ))
        answer = connection.getresponse()
        told = answer.read(1024).decode("utf-8", "replace")
        return None if answer.status == 200 else f"{answer.status} {told}"
    except (OSError, http.client.HTTPException) as error:
        return f"no answer on port {port}: {error}"
    finally:
        connection.close()


def _key(environ: Mapping[str, str]) -> dict[str, str]:
    key = environ.get("HOOKLANE_API_KEY")
    if key is None and "HOOKLANE_API_KEY_FILE" in environ:
        key = Path(environ["HOOKLANE_API_KEY_FILE"]).read_text("utf-8").strip()
    return {"authorization": f"Bearer {key}"} if key else {}


if __name__ == "__main__":
    if (why := why_not_ready(os.environ)) is not None:
        sys.stderr.write(f"hooklane: not ready: {why}\n")
        sys.exit(1)
