"""Certificates for tests, made on the spot: good ones, and each kind of bad one."""

from __future__ import annotations

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """A certificate authority; *parent* makes it an intermediate one."""

    def __init__(self, name: str, parent: Authority | None = None) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self.parent = parent
        issuer_name, issuer_key = (parent._name, parent._key) if parent else (self._name, self._key)
        self._certificate = (
            _builder(self._name, issuer_name, self._key, days=365)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(authority=True), critical=True)
            .sign(issuer_key, hashes.SHA256())
        )
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    def server(
        self, *names: str, days: int = 30, padding: int = 0, version: ssl.TLSVersion | None = None
    ) -> ssl.SSLContext:
        """A server's context with a certificate for *names*; negative *days* for one that has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_named(names[0]), self._name, key, days=days).add_extension(
            x509.SubjectAlternativeName([_san(name) for name in names]), critical=False
        )
        if padding:
            oid = x509.ObjectIdentifier("1.3.6.1.4.1.99999.1")
            builder = builder.add_extension(x509.UnrecognizedExtension(oid, b"\x04\x00" * (padding // 2)), False)
        certificate = builder.sign(self._key, hashes.SHA256())
        chain = [certificate.public_bytes(serialization.Encoding.PEM).decode()]
        above: Authority | None = self
        while above is not None and above.parent is not None:
            chain.append(above.pem)
            above = above.parent
        return _context("".join(chain), key, version)


def self_signed(name: str) -> ssl.SSLContext:
    """A server that vouches for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(_named(name), _named(name), key, days=30)
        .add_extension(x509.SubjectAlternativeName([_san(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _context(certificate.public_bytes(serialization.Encoding.PEM).decode(), key, None)


def _context(chain: str, key: ec.EllipticCurvePrivateKey, version: ssl.TLSVersion | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if version is not None:
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = version
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.pem"
        path.write_text(secret + chain)
        context.load_cert_chain(path)
    return context


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=100))
        .not_valid_after(now + timedelta(days=days))
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _san(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
