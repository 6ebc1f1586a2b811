"""Settings: flag before environment before file before default, and every wrong one told at once."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.processes.cli.conftest import Ended

import hooklane
from hooklane.cli.main import run
from hooklane.cli.ready import why_not_ready
from hooklane.config import DEFAULT_DB, SETTINGS, load, unknown_variables
from hooklane.errors import ConfigError

SOURCES = Path(hooklane.__file__).parent


def origin(origins: list, name: str) -> str:  # type: ignore[type-arg]
    return str(next(one.origin for one in origins if one.name == name))


def test_a_flag_wins_over_the_environment_over_the_file_over_the_default(tmp_path: Path):
    file = tmp_path / "hooklane.toml"
    file.write_text("port = 1111\nhost = '127.0.0.3'\nlog_level = 'debug'\n")
    environ = {"HOOKLANE_PORT": "2222", "HOOKLANE_HOST": "127.0.0.2"}

    settings, origins = load({"port": "3333"}, environ, file=file)

    assert (settings.port, settings.host, settings.log_level, settings.db) == (3333, "127.0.0.2", "debug", DEFAULT_DB)
    assert origin(origins, "port") == "flag --port"
    assert origin(origins, "host") == "HOOKLANE_HOST"
    assert origin(origins, "log_level") == str(file)
    assert origin(origins, "db") == "default"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOOKLANE_PORT", "65536"),
        ("HOOKLANE_PORT", "x"),
        ("HOOKLANE_DB", "sqlite:///"),
        ("HOOKLANE_DB", "redis://x"),
        ("HOOKLANE_HOST", "a b"),
        ("HOOKLANE_ROLE", ""),
        ("HOOKLANE_ROLE", "api,cook"),
        ("HOOKLANE_EGRESS_ALLOW", "10.0.0.1/8"),
        ("HOOKLANE_EGRESS_ALLOW", "everything"),
        ("HOOKLANE_NO_AUTH", "maybe"),
        ("HOOKLANE_LOG_LEVEL", "loud"),
        ("HOOKLANE_API_KEY", "short"),
        ("HOOKLANE_API_KEY", "fifteen-letters"),
        ("HOOKLANE_API_KEY", "with a space in it"),
        ("HOOKLANE_API_KEY_FILE", "/nowhere/key"),
        ("HOOKLANE_CONFIG", "/nowhere/hooklane.toml"),
    ],
)
def test_a_wrong_value_is_told_with_where_it_came_from(name: str, value: str):
    with pytest.raises(ConfigError) as raised:
        load({}, {name: value})

    [problem] = raised.value.problems
    assert name in problem or "/nowhere" in problem


def test_a_wrong_key_is_not_printed():
    with pytest.raises(ConfigError) as raised:
        load({}, {"HOOKLANE_API_KEY": "hunter2"})

    assert "hunter2" not in str(raised.value)


def test_all_wrong_values_are_told_at_once(tmp_path: Path):
    file = tmp_path / "hooklane.toml"
    file.write_text("port = true\ncolour = 1\n")
    with pytest.raises(ConfigError) as raised:
        load({"role": "cook"}, {"HOOKLANE_DB": "x", "HOOKLANE_EGRESS_ALLOW": "y"}, file=file)

    assert len(raised.value.problems) == 5


@pytest.mark.parametrize(
    "line",
    [
        "port = 1e400",
        "port = 80.5",
        "workers = inf",
        "workers = 1.9",
        "quota = inf",
        "quota = 2.5",
        'public_url = "https://[::1"',
        'public_url = "https://hooks.example:99999"',
        'public_url = "https://a:b"',
    ],
)
def test_a_number_or_an_address_that_is_none_is_told(tmp_path: Path, line: str):
    file = tmp_path / "hooklane.toml"
    file.write_text(line)
    with pytest.raises(ConfigError) as raised:
        load({}, {}, file=file)

    [problem] = raised.value.problems
    assert problem.startswith(f"{line.partition(' ')[0]} must be ")


def test_a_file_that_a_link_does_not_find_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hooklane.toml").symlink_to("elsewhere.toml")
    with pytest.raises(ConfigError, match="a link to a file that does not exist"):
        load({}, {})


def test_an_empty_name_of_a_file_and_a_mark_of_its_encoding_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hooklane.toml").write_bytes(b"\xef\xbb\xbfport = 9000\n")

    assert load({}, {"HOOKLANE_CONFIG": ""})[0].port == 9000


@pytest.mark.parametrize("text", ["port = = 1", f"port = {'9' * 5_000}", f"role = {'[' * 5_000}"])
def test_a_file_that_is_no_toml_is_told(tmp_path: Path, text: str):
    file = tmp_path / "hooklane.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match="cannot be read as TOML"):
        load({}, {}, file=file)


def test_a_number_that_is_none_of_ours_is_told(tmp_path: Path):
    file = tmp_path / "hooklane.toml"
    file.write_text(f"port = 0x{'F' * 5_000}")
    with pytest.raises(ConfigError, match=r"port must be .*, got a number of thousands of digits"):
        load({}, {}, file=file)
    with pytest.raises(ConfigError, match="port must be"):
        load({}, {"HOOKLANE_PORT": "٣"})


def test_lists_and_switches_are_read(tmp_path: Path):
    file = tmp_path / "hooklane.toml"
    file.write_text('role = ["api", "deliver"]\negress_allow = ["127.0.0.0/8", "::1/128"]\nui = false\n')

    settings, _ = load({}, {"HOOKLANE_NO_AUTH": "yes"}, file=file)

    assert (settings.role, settings.egress_allow) == (("api", "deliver"), ("127.0.0.0/8", "::1/128"))
    assert (settings.ui, settings.no_auth) == (False, True)


def test_config_show_says_where_each_setting_comes_from_and_hides_secrets(
    cli: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOOKLANE_API_KEY", "hunter2hunter2hunter2")
    monkeypatch.setenv("HOOKLANE_PORT", "9000")

    table = cli("config", "show", "--origin")
    value = cli("config", "show", "--origin", "--json").json

    assert "hunter2" not in table.out + str(value)
    assert value["port"] == {"value": 9000, "origin": "HOOKLANE_PORT"}
    assert value["api_key"] == {"value": "***", "origin": "HOOKLANE_API_KEY"}
    assert value["host"]["origin"] == "default"


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.9.9.9", True), ("0.0.0.0", False), ("::", False),
     ("localhost.example.com", False), ("10.0.0.1", False)],
)  # fmt: skip
def test_only_the_loopback_is_the_loopback(host: str, expected: bool):
    settings, _ = load({"host": host}, {})

    assert settings.is_loopback is expected


def test_a_variable_that_no_setting_has_is_named_with_the_one_that_was_meant() -> None:
    environ = {"HOOKLANE_RETENTON": "7d", "HOOKLANE_WIBBLE": "1", "hooklane_port": "1", "PATH": "/bin"}
    told = unknown_variables(environ)

    assert [line.split()[0] for line in told] == ["HOOKLANE_RETENTON", "HOOKLANE_WIBBLE", "hooklane_port"]
    assert "did you mean HOOKLANE_RETENTION?" in told[0]
    assert "did you mean" not in told[1]
    assert "did you mean HOOKLANE_PORT?" in told[2]


def test_every_variable_that_is_read_is_known() -> None:
    """Those in the sources, so that a new one is not called unknown."""
    read = set(
        re.findall(r"(?<!_)HOOKLANE_[A-Z][A-Z_]*[A-Z]", "".join(path.read_text() for path in SOURCES.rglob("*.py")))
    )
    read = {name for name in read if not name.startswith("HOOKLANE_TEST")}
    read |= {setting.env for setting in SETTINGS}

    assert len(read) > 15
    assert unknown_variables(dict.fromkeys(read, "x")) == []
    assert unknown_variables({"HOOKLANE_TEST_ANYTHING": "1"}) == []


def test_a_command_says_once_that_a_variable_is_ignored(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOOKLANE_API_KEYS", "a-key-of-sixteen-or-more")
    assert run(["version"]) == 0
    told = capsys.readouterr()

    assert told.err.count("\n") == 1
    assert "HOOKLANE_API_KEYS is set" in told.err
    assert "did you mean HOOKLANE_API_KEY?" in told.err
    assert "sixteen" not in told.err


def test_what_kubernetes_sets_for_a_service_of_our_name_is_no_setting():
    """Naive: it is. A pod beside a service called `hooklane` has HOOKLANE_PORT=tcp://…, and no server started there."""
    links = {
        "HOOKLANE_PORT": "tcp://10.96.0.10:80",
        "HOOKLANE_PORT_80_TCP": "tcp://10.96.0.10:80",
        "HOOKLANE_PORT_80_TCP_ADDR": "10.96.0.10",
        "HOOKLANE_PORT_80_TCP_PORT": "80",
        "HOOKLANE_PORT_80_TCP_PROTO": "tcp",
        "HOOKLANE_SERVICE_HOST": "10.96.0.10",
        "HOOKLANE_SERVICE_PORT": "80",
        "HOOKLANE_SERVICE_PORT_HTTP": "80",
        "HOOKLANE_API_PORT": "tcp://10.96.0.11:80",
        "HOOKLANE_API_SERVICE_HOST": "10.96.0.11",
    }
    settings, origins = load({}, links)

    assert (settings.port, {one.origin for one in origins if one.name == "port"}) == (8787, {"default"})
    assert unknown_variables(links) == []
    assert "8787" in str(why_not_ready(links))
