"""Whose certificate signed? Only one from a pinned host, valid now, for the right name; never from anywhere else."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509 import verification

from hooklane.core.verify.keys import Key, rsa_key
from hooklane.core.verify.ring import Keyring
from hooklane.errors import VerificationError
from hooklane.model.clock import Instant
from hooklane.model.message import Request

# One host under paypal.com, https, no port, no user, nothing that two parsers could read differently.
_PINNED = re.compile(r"https://(?:[a-z0-9-]{1,63}\.){1,3}paypal\.com/[A-Za-z0-9._~/-]{1,512}")
_NAME = re.compile(r"(?:[a-z0-9*-]+\.)*paypal\.com")


def certified_key(request: Request, keys: Keyring, now: Instant) -> Key:
    """The key in the certificate that the request points to, after everything about it was checked."""
    urls, algorithms = request.values("paypal-cert-url"), request.values("paypal-auth-algo")
    if len(urls) != 1 or len(algorithms) != 1:
        raise VerificationError("missing_header", "PAYPAL-CERT-URL and PAYPAL-AUTH-ALGO must be there once")
    if algorithms[0] != "SHA256withRSA":
        raise VerificationError("malformed", "PAYPAL-AUTH-ALGO is not SHA256withRSA")
    if not _PINNED.fullmatch(urls[0]):
        raise VerificationError("malformed", "PAYPAL-CERT-URL is not under paypal.com")
    if keys.certificates is None:
        raise VerificationError("misconfigured", "the source has no certificates to look in")
    try:
        pem = keys.certificates(urls[0])
    except Exception as problem:  # it is the user's own fetch: whatever it raises, there is no certificate
        raise VerificationError(
            "misconfigured", f"the certificate could not be had: {type(problem).__name__}"
        ) from None
    if not pem:
        raise VerificationError("misconfigured", "the certificate is not known")
    return _trusted(pem, keys.roots, now)


def _trusted(pem: bytes, roots: bytes | None, now: Instant) -> Key:
    moment = datetime.fromtimestamp(now / 1000, UTC)
    try:
        leaf, *chain = x509.load_pem_x509_certificates(pem)
        key = leaf.public_key()
        if not leaf.not_valid_before_utc <= moment <= leaf.not_valid_after_utc:
            raise VerificationError("stale", "the certificate is not valid at this time")
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        fitting = [name for name in names.get_values_for_type(x509.DNSName) if _NAME.fullmatch(name)]
        if not fitting:
            raise VerificationError("mismatch", "the certificate is not for paypal.com")
        if roots is not None:
            store = verification.Store(x509.load_pem_x509_certificates(roots))
            host = x509.DNSName(fitting[0].replace("*", "verify"))
            verification.PolicyBuilder().store(store).time(moment).build_server_verifier(host).verify(leaf, chain)
    except verification.VerificationError:
        raise VerificationError("mismatch", "the certificate does not lead to a trusted authority") from None
    except (ValueError, x509.ExtensionNotFound):
        raise VerificationError("malformed", "the certificate cannot be read") from None
    if not isinstance(key, rsa.RSAPublicKey):
        raise VerificationError("malformed", "the certificate's key is not RSA")
    return rsa_key(key)
