"""Secrets for tests: what a provider would sign with, and what a receiver is given to verify it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hooklane.core.signing import new_key_pair, new_secret
from hooklane.core.verify.profile import Profile
from hooklane.core.verify.scheme import KeyKind

PUBLIC_URL = "https://example.test/webhooks/{name}"
CERTIFIED = {
    "paypal": ("messageverificationcerts.paypal.com", "https://api.paypal.com/v1/notifications/certs/CERT-test"),
    "sns": ("sns.amazonaws.com", "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-test.pem"),
}
"""The host that a profile's certificate is for, and where the request says that it is."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """*signing* stays with the test that signs, *secret* and *options* go to `keyring` (or to the source)."""

    signing: Any = field(repr=False)
    secret: str = field(repr=False)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)


def credentials(profile: Profile, seed: str = "hooklane") -> Credentials:
    """Secrets of the right kind for *profile*, the same ones for the same *seed*."""
    chance = hashlib.sha256(f"{profile.name} {seed}".encode()).digest()
    options: dict[str, Any] = {"verify_token": chance.hex()[:16]}
    if profile.needs_url:
        options["url"] = PUBLIC_URL.format(name=profile.name)
    match profile.schemes[0].key:
        case KeyKind.WHSEC | KeyKind.WHSEC_ONLY:
            secret = new_secret(chance)
            return Credentials(secret, secret, options)
        case KeyKind.WHPK:
            pair = new_key_pair(chance)
            return Credentials(pair.private, pair.public, options)
        case KeyKind.HEX:
            return Credentials(chance.hex(), chance.hex(), options)
        case KeyKind.BASE64:
            secret = base64.b64encode(chance).decode()
            return Credentials(secret, secret, options)
        case KeyKind.ED25519_HEX:
            private = ed25519.Ed25519PrivateKey.from_private_bytes(chance)
            return Credentials(private, private.public_key().public_bytes_raw().hex(), options)
        case KeyKind.SPKI:
            return _p256(chance, options)
        case KeyKind.CERTIFIED:
            host, url = CERTIFIED[profile.name]
            certified, leaf, root = certificate(host)
            options |= {"certificates": {url: leaf}.get, "roots": root}
            name = f"arn:aws:sns:us-east-1:1:{chance.hex()[:8]}" if profile.name == "sns" else f"WH-{chance.hex()[:17]}"
            return Credentials(certified, name, options)
        case KeyKind.UTF8 | KeyKind.TOKEN:
            secret = f"test:{chance.hex()}"  # with a colon, so that it also serves as user:password
            return Credentials(secret, secret, options)


def _p256(chance: bytes, options: Mapping[str, Any]) -> Credentials:
    private = ec.derive_private_key(int.from_bytes(chance[:31], "big") + 1, ec.SECP256R1())
    der = private.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return Credentials(private, base64.b64encode(der).decode(), options)


@lru_cache(maxsize=8)
def certificate(host: str) -> tuple[rsa.RSAPrivateKey, bytes, bytes]:
    """A key, a certificate for *host*, and the root that vouches for it, both as PEM."""
    root_key, leaf_key = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
    root = _certificate("Test Root", root_key, "Test Root", root_key)
    leaf = _certificate(host, leaf_key, "Test Root", root_key)
    return leaf_key, leaf, root


def _certificate(name: str, key: rsa.RSAPrivateKey, issuer: str, issuer_key: rsa.RSAPrivateKey) -> bytes:
    is_root = key is issuer_key
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2015, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2045, 1, 1, tzinfo=UTC))
        .add_extension(x509.BasicConstraints(ca=is_root, path_length=0 if is_root else None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .add_extension(
            x509.KeyUsage(not is_root, False, False, False, False, is_root, is_root, False, False), critical=True
        )
    )
    if not is_root:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return builder.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
