"""How the page looks and where it may be framed: settings of the operator, which the portal shows to customers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PageLook:
    """Colours and logo of the page, and the sites that may show the portal in a frame."""

    accent: str | None = None
    logo: str | None = None
    frame_ancestors: tuple[str, ...] = ()
    public_url: str | None = None
    """Where browsers find this server: portal links begin with it."""


DEFAULT_LOOK = PageLook()
