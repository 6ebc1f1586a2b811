"""Whose certificate signed? Only one from a pinned host, valid now, for the right name; never from anywhere else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509 import verification

from hooklane.core.verify.keys import Key, rsa_key
from hooklane.core.verify.parts import one_header
from hooklane.core.verify.ring import Keyring
from hooklane.errors import ProofUnavailable, VerificationError
from hooklane.model.clock import Instant
from hooklane.model.message import Request


@dataclass(frozen=True, slots=True)
class Pin:
    """Where a provider's certificates may come from, and whose they must be."""

    url: re.Pattern[str]
    name: re.Pattern[str]


# Https, no port, no user, nothing that two parsers could read differently.
PAYPAL = Pin(
    re.compile(r"https://(?:[a-z0-9-]{1,63}\.){1,3}paypal\.com/[A-Za-z0-9._~/-]{1,512}"),
    re.compile(r"(?:[a-z0-9*-]+\.)*paypal\.com"),
)
AMAZON = Pin(
    re.compile(r"https://sns\.[a-z0-9-]{1,63}\.amazonaws\.com(?:\.cn)?/[A-Za-z0-9._~/-]{1,512}\.pem"),
    re.compile(r"sns\.(?:[a-z0-9-]+\.)?amazonaws\.com(?:\.cn)?"),
)


def paypal_key(request: Request, keys: Keyring, now: Instant) -> Key:
    """The key in the certificate that a request of PayPal points to, after everything about it was checked."""
    algorithm, url = one_header(request, "paypal-auth-algo"), one_header(request, "paypal-cert-url")
    if algorithm != "SHA256withRSA":
        raise VerificationError("malformed", "PAYPAL-AUTH-ALGO is not SHA256withRSA")
    return rsa_key(trusted_key(url, PAYPAL, keys, now))


def trusted_key(url: str, pin: Pin, keys: Keyring, now: Instant) -> rsa.RSAPublicKey:
    """The key of the certificate at *url*, which is looked up only when *pin* allows it."""
    if not pin.url.fullmatch(url):
        raise VerificationError("malformed", "the certificate is not on one of the provider's hosts")
    if keys.certificates is None:
        raise VerificationError("misconfigured", "the source has no certificates to look in")
    try:
        pem = keys.certificates(url)
    except Exception as problem:  # it is the user's own fetch: whatever it raises, there is no certificate now
        raise ProofUnavailable("misconfigured", f"no certificate: {type(problem).__name__} was raised") from problem
    if not pem:
        raise VerificationError("misconfigured", "the certificate is not known")
    return _trusted(pem, pin, keys.roots, now)


def _trusted(pem: bytes, pin: Pin, roots: bytes | None, now: Instant) -> rsa.RSAPublicKey:
    try:
        moment = datetime.fromtimestamp(now / 1000, UTC)
        leaf, *chain = x509.load_pem_x509_certificates(pem)
        key = leaf.public_key()
        if not leaf.not_valid_before_utc <= moment <= leaf.not_valid_after_utc:
            raise VerificationError("stale", "the certificate is not valid at this time")
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        fitting = [name for name in names.get_values_for_type(x509.DNSName) if pin.name.fullmatch(name)]
        if not fitting:
            raise VerificationError("mismatch", "the certificate is for another name")
        if roots is not None:
            store = verification.Store(x509.load_pem_x509_certificates(roots))
            host = x509.DNSName(fitting[0].replace("*", "verify"))
            verification.PolicyBuilder().store(store).time(moment).build_server_verifier(host).verify(leaf, chain)
    except verification.VerificationError:
        raise VerificationError("mismatch", "the certificate does not lead to a trusted authority") from None
    except (ValueError, OverflowError, UnsupportedAlgorithm, x509.ExtensionNotFound, x509.DuplicateExtension):
        raise VerificationError("malformed", "the certificate cannot be read") from None
    if not isinstance(key, rsa.RSAPublicKey):
        raise VerificationError("malformed", "the certificate's key is not RSA")
    return key
