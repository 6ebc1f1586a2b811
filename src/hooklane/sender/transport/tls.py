"""How is a peer's certificate judged? Always, and by the name of the original host."""

from __future__ import annotations

import ssl
from functools import lru_cache

from hooklane.errors import ConfigError


def default_context(ca_file: str | None) -> ssl.SSLContext:
    """The system's authorities, or those of *ca_file* alone; ConfigError when that file holds none."""
    context = _strict()
    if ca_file is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return context
    try:
        context.load_verify_locations(cafile=ca_file)
    except OSError as error:  # ssl.SSLError is one too
        raise ConfigError([f"CA file: expected certificates in PEM at {ca_file!r}, got {error}"]) from error
    return context


@lru_cache(maxsize=256)
def own_context(ca_pem: str) -> ssl.SSLContext:
    """The authorities of *ca_pem* and no others; ssl.SSLError when it holds none."""
    context = _strict()
    try:
        context.load_verify_locations(cadata=ca_pem)
    except (TypeError, ValueError) as error:  # text that is not ASCII, or empty
        raise ssl.SSLError("no certificate in PEM") from error
    return context


def _strict() -> ssl.SSLContext:
    # Not create_default_context: that one also reads SSLKEYLOGFILE from the environment and would write our keys to it.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
