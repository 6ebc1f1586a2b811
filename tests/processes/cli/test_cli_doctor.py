"""`hooklane doctor` on real databases, files, certificates and servers."""

import datetime
import ipaddress
import socket
import sqlite3
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.processes.cli.conftest import Ended
from tests.support.valkey import ValkeyServer

Cli = Callable[..., Ended]


def states(ended: Ended) -> dict[str, str]:
    return {one["name"]: one["state"] for one in ended.json["checks"]}


@pytest.fixture
def database(cli: Cli, db: Path) -> Path:
    assert cli("migrate", "up").code == 0
    return db


def test_a_healthy_database_is_exit_0(cli: Cli, database: Path):
    ended = cli("doctor", "--json")

    assert (ended.code, ended.json["healthy"], ended.json["v"]) == (0, True, 1)
    assert {
        "versions",
        "page",
        "permissions",
        "file",
        "schema",
        "disk",
        "retention",
        "ledger",
        "audit",
        "lanes",
    } <= set(states(ended))
    assert "wrong" not in states(ended).values()


def test_a_file_that_others_can_read_is_wrong_until_it_is_fixed(cli: Cli, database: Path):
    database.chmod(0o644)
    found = cli("doctor", "--quick")
    assert (found.code, "`hooklane doctor --fix` mends 1 of them" in found.err) == (7, True)

    database.chmod(0o644)
    fixed = cli("doctor", "--quick", "--fix", "--json")

    assert (fixed.code, fixed.json["fixed"]) == (0, [f"chmod 600 {database}"])
    assert "fixed: chmod 600" in fixed.err
    assert database.stat().st_mode & 0o777 == 0o600


def test_an_older_schema_is_wrong_and_untouched_until_it_is_fixed(cli: Cli, db: Path):
    sqlite3.connect(db).close()
    db.chmod(0o600)
    found = cli("doctor", "--quick", "--json")

    assert (found.code, states(found)["schema"], states(found)["file"]) == (7, "wrong", "wrong")
    assert db.stat().st_size == 0
    fixed = cli("doctor", "--quick", "--fix", "--json")
    assert fixed.code == 0, fixed
    assert [line.partition(" ")[0] for line in fixed.json["fixed"]] == ["set", "migrated"]


def test_a_newer_schema_is_wrong_and_nothing_else_is_asked(cli: Cli, database: Path):
    with sqlite3.connect(database) as conn:
        conn.execute("UPDATE hooklane_schema SET version = 999")
    conn.close()
    found = cli("doctor", "--fix", "--json")

    assert (found.code, states(found)["schema"], found.json["fixed"]) == (7, "wrong", [])
    assert "ledger" not in states(found)


def test_postgresql_is_asked_for_its_clock_and_its_standbys(cli: Cli, postgres_url: str):
    assert cli("migrate", "up", "--db", postgres_url).code == 0
    ended = cli("doctor", "--db", postgres_url, "--json")

    assert ended.code == 0, ended
    found = states(ended)
    assert (found["clock"], found["standby"], found["schema"]) == ("ok", "ok", "ok")


@pytest.fixture
def expiring(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A TLS server on the loopback whose certificate ends in two days; its port and its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "shop")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2, hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = tmp_path / "shop.pem"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = tmp_path / "shop.key"
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, private)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):  # the listener is closed at the end
            while True:
                connection, _ = listener.accept()
                with suppress(OSError), context.wrap_socket(connection, server_side=True) as secure:
                    secure.recv(1)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1], pem
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_a_certificate_that_ends_soon_is_wrong_and_quick_does_not_ask(
    cli: Cli, database: Path, expiring: tuple[int, Path]
):
    port, pem = expiring
    cli("endpoints", "add", f"https://127.0.0.1:{port}/", "--name", "shop", "--ca", str(pem))
    cli("endpoints", "add", f"https://127.0.0.1:{port}/", "--name", "stranger")
    ended = cli("doctor")

    assert ended.code == 7
    assert "✕ endpoint shop: TLS certificate expires in 2 d" in ended.out.splitlines()
    assert "✕ endpoint stranger: TLS: self-signed certificate" in ended.out
    assert cli("doctor", "--quick").code == 0


def test_a_redis_that_forgets_is_wrong(cli: Cli, database: Path, crash_redis: ValkeyServer):
    fine = cli("doctor", "--quick", "--store", crash_redis.address.url())
    with redis.Redis.from_url(crash_redis.address.url()) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
    ended = cli("doctor", "--quick", "--store", crash_redis.address.url())

    assert fine.code == 0, fine
    assert ended.code == 7
    assert "maxmemory-policy is allkeys-lru" in ended.out


def test_an_inbox_is_checked_with_its_sources(
    cli: Cli, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "hooks_to_check.py").write_text(
        "from hooklane import Inbox\n"
        "inbox = Inbox('memory://')\n"
        "stripe = inbox.source('stripe', secrets=['whsec_abcdefgh'])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    ended = cli("doctor", "--quick", "--inbox", "hooks_to_check:inbox")

    assert ended.code == 0, ended
    assert "✓ source stripe: dedup retention 30 d, sender retry window 3 d" in ended.out
    assert "! inbox: source 'stripe' has no handler" in ended.out
