"""Which settings hold, and where does each come from? Flag, then environment, then hooklane.toml, then default."""

from __future__ import annotations

import base64
import difflib
import ipaddress
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hooklane.errors import ConfigError
from hooklane.model.database_url import shown
from hooklane.model.worker_name import LABEL

ROLES = ("api", "deliver", "inbox")
"""What a server may be. `inbox` is only a name: handlers are code of yours, and `hooklane inbox worker` runs it."""
DEFAULT_DB = "sqlite:///.hooklane/hooklane.db"
DEFAULT_PORT = 8787
FILE = "hooklane.toml"
WORKERS_MAX = 64
DAY_MS = 24 * 3_600_000


class Secret(str):
    """Text that must not be printed: it shows itself as stars."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a process is started with, checked."""

    db: str = field(default=DEFAULT_DB, repr=False)
    """It may hold a password: `shown` before it is printed."""
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    role: tuple[str, ...] = ("api", "deliver")
    workers: int = 1
    """How many processes deliver: 1 is this process itself."""
    worker_name: str | None = None
    """A name that this replica has for ever, and no other one at the same time."""
    api_key: Secret | None = field(default=None, repr=False)
    no_auth: bool = False
    seal_key: tuple[str, ...] = field(default=(), repr=False)
    """Keys that seal the secrets of endpoints in the database: the first seals, all open."""
    egress_allow: tuple[str, ...] = ()
    ui: bool = True
    playground: bool = False
    """Whether `serve` answers the playground's calls, which take time of its processor; `dev` always does."""
    log_level: str = "info"
    log_format: str = "text"
    otel: bool = False
    """Whether spans are made and sent over OTLP/HTTP."""
    retention: int = 30 * DAY_MS
    """How long a delivered event is kept, in milliseconds; the same for the others below."""
    retention_attempts: int = 30 * DAY_MS
    retention_audit: int = 400 * DAY_MS
    quota: int | None = None
    """How many deliveries a tenant may have undelivered before publishes over HTTP are refused."""
    disk_free_min: int = 256 * 2**20
    """Publishes over HTTP are refused while fewer bytes are free where the database file is."""
    public_url: str | None = None
    """Where browsers find this server, if a proxy stands before it: portal links begin with it."""
    page_accent: str | None = None
    page_logo: str | None = None
    portal_frames: tuple[str, ...] = ()
    """The sites that may show the customer portal in a frame."""

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)


@dataclass(frozen=True, slots=True)
class Origin:
    """One setting as `config show` prints it."""

    name: str
    value: Any
    origin: str
    is_secret: bool = False


@dataclass(frozen=True, slots=True)
class _Setting:
    name: str
    read: Callable[[Any], Any]
    expected: str
    is_secret: bool = False

    @property
    def env(self) -> str:
        return f"HOOKLANE_{self.name.upper()}"


def is_loopback(host: str) -> bool:
    """Whether *host* can only be reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _db(value: Any) -> str:
    text = str(value)
    if not text.startswith(("sqlite:///", "postgresql://", "postgres://")) or text == "sqlite:///":
        raise ValueError
    return text


def _text(pattern: str, *, lower: bool = False) -> Callable[[Any], str]:
    """A reader of text that fits *pattern* as a whole."""

    def read(value: Any) -> str:
        text = str(value).strip()
        if not re.fullmatch(pattern, text):
            raise ValueError
        return text.lower() if lower else text

    return read


def _one_of(*words: str) -> Callable[[Any], str]:
    return _text(f"(?i:{'|'.join(words)})", lower=True)


def _whole(value: Any) -> int:
    """A whole number, or the text of one: of 1.5 half would be lost, and `inf` is none."""
    if isinstance(value, bool | float) or not str(value).isascii():
        raise ValueError
    return int(value)


def _number(least: int, most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        number = _whole(value)
        if not least <= number <= most:
            raise ValueError
        return number

    return read


def _roles(value: Any) -> tuple[str, ...]:
    roles = tuple(_words(value))
    if not roles or any(role not in ROLES for role in roles):
        raise ValueError
    return roles


def _worker_name(value: Any) -> str | None:
    text = str(value).strip()
    if text and not LABEL.match(text):
        raise ValueError
    return text or None


def _networks(value: Any) -> tuple[str, ...]:
    return tuple(str(ipaddress.ip_network(word)) for word in _words(value))


def _words(value: Any) -> list[str]:
    parts = value if isinstance(value, list | tuple) else str(value).split(",")
    return [str(part).strip() for part in parts if str(part).strip()]


def _key(value: Any) -> Secret:
    text = str(value).strip()
    # A header carries it: printable ASCII, and long enough not to be guessed.
    if not re.fullmatch(r"[\x21-\x7e]{16,512}", text):
        raise ValueError
    return Secret(text)


def _seal_keys(value: Any) -> tuple[Secret, ...]:
    """32 bytes each, as base64 or hexadecimal digits, with commas, spaces or line ends between them; newest first."""
    words = value if isinstance(value, list | tuple) else re.split(r"[\s,]+", str(value).strip())
    for word in words:
        seal_key_bytes(str(word))
    return tuple(Secret(word) for word in words)


def seal_key_bytes(text: str) -> bytes:
    """The 32 bytes that *text* spells; ValueError where it spells something else."""
    raw = bytes.fromhex(text) if re.fullmatch(r"[0-9A-Fa-f]{64}", text) else base64.b64decode(text, validate=True)
    if len(raw) != 32:
        raise ValueError
    return raw


def _switch(value: Any) -> bool:
    match str(value).strip().lower():
        case "1" | "true" | "yes" | "on":
            return True
        case "0" | "false" | "no" | "off" | "":
            return False
    raise ValueError


_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": DAY_MS}
_UNITS_BYTES = {"": 1, "B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}


def _duration(value: Any) -> int:
    match = re.fullmatch(r"([0-9]{1,6})([smhd])", str(value).strip())
    if match is None or int(match[1]) == 0:
        raise ValueError
    return int(match[1]) * _UNITS_MS[match[2]]


def _size(value: Any) -> int:
    match = re.fullmatch(r"([0-9]{1,15}) ?([A-Z]{0,2})", str(value).strip().upper())
    if match is None or match[2] not in _UNITS_BYTES:
        raise ValueError
    return int(match[1]) * _UNITS_BYTES[match[2]]


def _quota(value: Any) -> int | None:
    if str(value).strip().lower() in ("", "none"):
        return None
    quota = _whole(value)
    if quota < 1:
        raise ValueError
    return quota


def _sites(value: Any) -> tuple[str, ...]:
    sites = tuple(_words(value))
    if not all(re.fullmatch(r"https://(\*\.)?[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?", site) for site in sites):
        raise ValueError
    return sites


def _public_url(value: Any) -> str:
    host = r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?"
    url = _text(rf"https?://{host}(/[A-Za-z0-9._~/-]{{0,255}})?")(str(value).strip().rstrip("/"))
    urlsplit(url).port  # noqa: B018 - ValueError where there is no such port or address
    return url


_DURATION = "a duration such as 30d, 12h, 90m"

SETTINGS = (
    _Setting("db", _db, "sqlite:///path/to/file.db or postgresql://host/name"),
    _Setting("host", _text(r"[A-Za-z0-9.:_-]{1,255}"), "an address or host name to listen on"),
    _Setting("port", _number(0, 65535), "a port from 0 to 65535"),
    _Setting("role", _roles, f"some of {', '.join(ROLES)}, with commas"),
    _Setting("workers", _number(1, WORKERS_MAX), f"a number of processes from 1 to {WORKERS_MAX}"),
    _Setting("worker_name", _worker_name, "1 to 64 of A-Z a-z 0-9 _ . - that no other replica has"),
    _Setting(
        "api_key",
        _key,
        "16 to 512 printable characters without spaces, made by chance: openssl rand -hex 32",
        is_secret=True,
    ),
    _Setting(
        "seal_key",
        _seal_keys,
        "one or more keys of 32 bytes in base64 or hex, newest first: openssl rand -base64 32",
        is_secret=True,
    ),
    _Setting("no_auth", _switch, "true or false"),
    _Setting("egress_allow", _networks, "networks such as 127.0.0.0/8,::1/128"),
    _Setting("ui", _switch, "true or false"),
    _Setting("playground", _switch, "true or false"),
    _Setting("log_level", _one_of("debug", "info", "warning", "error"), "debug, info, warning or error"),
    _Setting("log_format", _one_of("text", "json"), "text or json"),
    _Setting("otel", _switch, "true or false"),
    _Setting("retention", _duration, _DURATION),
    _Setting("retention_attempts", _duration, _DURATION),
    _Setting("retention_audit", _duration, _DURATION),
    _Setting("quota", _quota, "a number of deliveries, or none"),
    _Setting("disk_free_min", _size, "a size such as 256MB, or 0"),
    _Setting("public_url", _public_url, "the address of this server for browsers, such as https://hooks.example.com"),
    _Setting("page_accent", _text("#[0-9A-Fa-f]{6}", lower=True), "a colour such as #0055aa"),
    _Setting("page_logo", _text(r"https://[^\x00-\x20;,\"'<>\x7f-\U0010ffff]{1,2000}"), "the https URL of an image"),
    _Setting("portal_frames", _sites, "sites with commas, such as https://app.example.com,https://*.example.com"),
)


def load(
    flags: Mapping[str, Any], environ: Mapping[str, str], *, file: Path | None = None
) -> tuple[Settings, list[Origin]]:
    """The settings that hold and where each comes from; every wrong one is named in one ConfigError."""
    problems: list[str] = []
    named = environ.get("HOOKLANE_CONFIG")  # an empty one names no file, as scripts unset variables
    path = file or Path(named or FILE)
    written = _read_file(path, problems, must_exist=file is not None or bool(named) or path.is_symlink())
    defaults = Settings()
    values: dict[str, Any] = {}
    origins: list[Origin] = []
    for setting in SETTINGS:
        found, origin = _find(setting, flags, environ, written, path, problems)
        if origin is None:
            values[setting.name], origin = getattr(defaults, setting.name), "default"
        else:
            try:
                values[setting.name] = setting.read(found)
            except (ValueError, TypeError):
                got = "(hidden)" if setting.is_secret else _told(found)
                problems.append(f"{setting.name} must be {setting.expected}, got {got} from {origin}")
                continue
        origins.append(Origin(setting.name, values[setting.name], origin, setting.is_secret))
    if problems:
        raise ConfigError(problems)
    return Settings(**values), origins


def _told(value: Any) -> str:
    """A wrong value, for people."""
    try:
        return repr(shown(value) if isinstance(value, str) else value)
    except ValueError:
        return "a number of thousands of digits"


_BESIDES = ("CONFIG", "SERVER", "STORE", "SECRET", "SECRET_FILE", "COMPILE", "FAILPOINTS", "TENANT")
"""Variables that are read elsewhere, and are no settings of a server."""


_SERVICE_LINK = re.compile(r"HOOKLANE_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)\Z")
_SERVICE_PORT = re.compile(r"HOOKLANE_(\w+_)?PORT\Z")


def _is_service_link(name: str, value: str) -> bool:
    """Whether Kubernetes has set it. Every pod beside a service called `hooklane…` has such variables, and one of them
    is called as the port to listen on: `HOOKLANE_PORT=tcp://10.96.0.10:80`."""
    return bool(_SERVICE_LINK.match(name) or (_SERVICE_PORT.match(name) and "://" in value))


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """A line for each `HOOKLANE_…` variable that nothing reads: a misspelt setting does not hold, and is not missed.
    What begins with `HOOKLANE_TEST_` is for test runs."""
    known = {setting.env for setting in SETTINGS} | {f"HOOKLANE_{name}" for name in _BESIDES}
    known |= {f"{setting.env}_FILE" for setting in SETTINGS if setting.is_secret}
    lines = []
    for name in sorted(environ):
        if _is_service_link(name, environ[name]) or name.startswith("HOOKLANE_TEST_"):
            continue
        if name.upper().startswith("HOOKLANE_") and name not in known:
            near = difflib.get_close_matches(name.upper(), sorted(known), n=1, cutoff=0.85)
            advice = f"did you mean {near[0]}?" if near else "see `hooklane config show` for those that are"
            lines.append(f"{name} is set, but no setting has this name, so it is ignored: {advice}")
    return lines


def _find(
    setting: _Setting,
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    written: Mapping[str, Any],
    path: Path,
    problems: list[str],
) -> tuple[Any, str | None]:
    flag = flags.get(setting.name)
    if flag is not None:
        return flag, f"flag --{setting.name.replace('_', '-')}"
    if setting.env in environ and not _is_service_link(setting.env, environ[setting.env]):
        return environ[setting.env], setting.env
    if setting.is_secret and f"{setting.env}_FILE" in environ:
        secret_file = Path(environ[f"{setting.env}_FILE"])
        try:
            return secret_file.read_text("utf-8"), f"{setting.env}_FILE"
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            problems.append(f"{setting.env}_FILE: cannot read {secret_file}: {why}")
            return None, None
    if setting.name in written:
        return written[setting.name], str(path)
    return None, None


def _read_file(path: Path, problems: list[str], *, must_exist: bool) -> Mapping[str, Any]:
    try:
        written = tomllib.loads(path.read_text("utf-8-sig"))  # some editors begin a file with a mark of its encoding
    except FileNotFoundError:
        if must_exist:
            problems.append(
                f"{path} is a link to a file that does not exist" if path.is_symlink() else f"{path} does not exist"
            )
        return {}
    except (OSError, ValueError, RecursionError) as error:  # also for a number of thousands of digits, or [[[[…
        problems.append(f"{path} cannot be read as TOML: {error}")
        return {}
    known = {setting.name for setting in SETTINGS}
    problems.extend(
        f"{path} has an unknown setting {name!r}; known are {', '.join(sorted(known))}"
        for name in written
        if name not in known
    )
    return written
