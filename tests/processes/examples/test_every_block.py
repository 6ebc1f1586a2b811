"""Every fenced block of README, docs and examples is typed, run or read by a parser, or it is said here why not."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sqlite3
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from html.parser import HTMLParser
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
import typer
import yaml
from tests.processes.examples.conftest import Installed
from tests.processes.examples.stages import APART, SECRET, STAGES, World, database
from tests.support.console import Block, Typist, blocks_of, steps_of
from tests.support.pace import scaled_s
from tests.support.postgres import Postgres
from tests.support.printed import Person, blocks, chosen_ports, with_ports
from tests.support.processes import free_port
from tests.support.receiver import Sink
from tests.support.tree import ROOT

from hooklane import Outbox
from hooklane.cli.main import app
from hooklane.config import SETTINGS

DOCS = ROOT / "docs"
PAGES = sorted({*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")})
PAGES = [page for page in PAGES if "node_modules" not in page.parts and "adr" not in page.parts]


def name_of(page: Path) -> str:
    return str(page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT)).removesuffix(".md")


ALL = [(name_of(page), number, block) for page in PAGES for number, block in enumerate(blocks_of(page))]

# --- who takes care of which block ---

FOLLOWED = {"README", *(name_of(page) for page in (DOCS / "tutorials").glob("*.md"))}
"""Pages whose every block is typed, saved or compared: test_readme.py and test_tutorials.py."""

GENERATED = {"reference/cli", "reference/python-api", "reference/dashboard-calls"}
"""Pages that are written by the code, and compared with it."""

PICTURES = {"ARCHITECTURE", "explain/batching", "explain/states", "how-to/trace-with-opentelemetry"}
"""Pages with drawings in blocks that have no language: there is nothing to run."""

NOT_RUN = {
    "how-to/run-on-kubernetes": "needs a cluster; test_deploy.py builds the manifests and runs their commands",
    "how-to/run-with-docker": "needs Docker's daemon; test_deploy.py runs the image's and the services' commands",
    "how-to/run-with-systemd": "makes a user and a service; test_deploy.py has systemd check the unit, and starts it",
    "CONTRIBUTING": "each line is a target of the Makefile that takes minutes; that it is there is checked below",
    "UPGRADING": "upgrades an installation of 0.1; test_upgrade.py does that, step by step",
    "index": "the same lines as in the README, which are typed",
    "examples/lambda_dynamodb/README": "needs an account of AWS; test_lambda_example.py runs it on DynamoDB Local",
    "examples/node_consumer/README": "typed by test_node_readmes.py",
    "examples/node_producer/README": "typed by test_node_readmes.py",
}
"""Console blocks that are not typed by this file, and why. Their `hooklane` commands are parsed all the same."""

SHARE = ("how-to/api-keys",)
"""Typed by `make test`; the others soak."""


def consoles(page: str) -> list[Block]:
    return [block for name, _, block in ALL if name == page and block.language in ("console", "sh")]


def test_no_block_is_left_out():
    left = []
    for page, number, block in ALL:
        if page in FOLLOWED | GENERATED:
            continue
        match block.language:
            case "python" | "json" | "yaml" | "toml" | "nginx" | "html" | "http" | "sql":
                continue  # below, by their language
            case "console" | "sh" if page in STAGES or page in NOT_RUN or page in EXAMPLES:
                continue
            case "" if page in PICTURES:
                continue
            case "text" if page in ("how-to/run-with-systemd", "examples/three_hosts/README"):
                continue
        left.append(f"{page}, block {number} ({block.language or 'no language'})")

    assert left == []


def test_what_is_said_not_to_be_run_is_still_there():
    pages = {page for page, _, block in ALL if block.language in ("console", "sh")}

    assert set(NOT_RUN) - pages == set()
    assert set(STAGES) - pages == set()
    assert not set(NOT_RUN) & set(STAGES)


# --- commands ---


@pytest.fixture
def world(installed: Installed, tmp_path: Path, sink: Sink, postgres_server: Postgres) -> Iterator[World]:
    folder = tmp_path / "empty"
    folder.mkdir()
    made: list[str] = []
    numbers = count()

    def new_database() -> str:
        name = f"page_{tmp_path.name}_{next(numbers)}"[:60].lower()
        made.append(name)
        return postgres_server.create_database(name)

    env = {**installed.environment(tmp_path, {8000: 8000, 8787: 8787}), "PYTHONUNBUFFERED": "1"}
    programs = {"systemctl": 'echo "systemctl $*"'}  # of a machine on which a test may restart things
    programs |= {name: f'exec python -m {name} "$@"' for name in ("uvicorn", "flask", "gunicorn")}
    for name, line in programs.items():
        (tmp_path / "programs" / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / "programs" / name).chmod(0o755)
    found = World(Typist(folder, env), sink, new_database)
    yield found
    found.close()
    for name in made:
        postgres_server.drop_database(name)


CASES = [(page, False) for page in sorted(STAGES)] + [(page, True) for page in sorted(APART)]


@pytest.mark.parametrize(
    ("page", "apart"),
    [pytest.param(page, apart, marks=() if page in SHARE else pytest.mark.soak) for page, apart in CASES],
)
def test_the_commands_of_a_page_can_be_typed_as_printed(page: str, apart: bool, world: World):
    STAGES[page](world)

    for number, block in enumerate(consoles(page)):
        if (number == APART.get(page)) == apart:
            world.typist.follow(steps_of(block.text))


EXAMPLES = {
    "examples/dashboard/README": {},
    "examples/own_sender/README": {},
    "examples/receiver/README": {"whsec_…": SECRET},
    "examples/shopify/README": {"SHOPIFY_SECRET=…": "SHOPIFY_SECRET=s3cr3t-of-shopify"},
    "examples/slack/README": {"SLACK_SIGNING_SECRET=…": "SLACK_SIGNING_SECRET=s3cr3t-of-slack"},
    "examples/smartcar/README": {"<application management token>": "t0k3n-of-smartcar"},
    "examples/sportsstack/README": {"SECRET=…": "SECRET=s3cr3t-of-sports", "https://…": "http://127.0.0.1:1"},
    "examples/stripe_sqlalchemy/README": {"whsec_…": SECRET},
    "examples/three_hosts/README": {},
    "examples/github_django/README": {"GITHUB_SECRET=…": "GITHUB_SECRET=s3cr3t-of-github-long"},
}
"""READMEs of examples that are typed beside the example, and what a person would write for `…`."""


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=() if "slack" in page else pytest.mark.soak) for page in sorted(EXAMPLES)]
)
def test_the_readme_of_an_example_can_be_typed_as_printed(page: str, world: World, running: ExitStack):
    shutil.copytree((ROOT / page).parent, world.folder, dirs_exist_ok=True)
    if page == "examples/three_hosts/README":
        follow_in_one_shell((ROOT / page).parent, world, running)
        return
    database(world)
    for scheme, name in (("postgresql", "odds"), ("postgresql+asyncpg", "shop")):
        real = world.typist.stands_for["postgresql://db/app"].replace("postgresql://", f"{scheme}://")
        world.typist.stands_for[f"{scheme}://localhost/{name}"] = real
    world.typist.stands_for |= EXAMPLES[page]
    for printed in ("8000", "8787"):
        port = str(free_port())
        for before in ("--port ", "localhost:", "127.0.0.1:"):
            world.typist.stands_for[before + printed] = before + port
    world.typist.stands_for["django_app.py runserver"] = f"django_app.py runserver {free_port()}"
    world.typist.env |= {"UVICORN_PORT": str(free_port()), "FLASK_RUN_PORT": str(free_port())}

    for block in consoles(page):
        world.typist.follow(steps_of(block.text))


def follow_in_one_shell(folder: Path, world: World, running: ExitStack) -> None:
    """As a tutorial is: programs in the background are jobs of that shell, and can be killed by their number."""
    ports = chosen_ports(running, 8788, 8789)
    text = with_ports((folder / "README.md").read_text("utf-8"), ports)
    for name in ("hooklane", "receiver"):
        text = text.replace(f"postgresql://localhost/{name}", world.new_database())
    person = Person(world.folder, world.typist.env, running)
    for step in blocks(text):
        person.follow(step)


def commands() -> Iterator[tuple[str, str]]:
    """Every `hooklane …` command of every page: in blocks, and as code in running text."""
    for page in PAGES:
        text = page.read_text("utf-8")
        for block in blocks_of(page):
            if block.language in ("console", "sh"):
                for step in steps_of(block.text):
                    yield name_of(page), step.command
        prose = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)
        for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", prose):
            if re.match(r"(\w+=\S+ )*hooklane [a-z]", span):
                yield name_of(page), " ".join(span.split())


def words_of(command: str) -> list[str] | None:
    """The words after `hooklane`, or none if the command is another program's or is only hinted at."""
    found = re.search(r"(?:^|[|&;] *|\b\w+=\S* )hooklane ((?:'[^']*'|\"[^\"]*\"|[^|&;<>'\"])*)", command)
    if found is None or "…" in found[1].split(" -")[0].strip().split(" ")[-1:]:
        return None
    return shlex.split(found[1], comments=True)


def parsed(words: list[str]) -> str | None:
    """What the command line itself says against *words*, without running anything."""
    command: Any = typer.main.get_command(app)
    rest = [word for word in words if word != "…"]
    while rest and not rest[0].startswith("-") and hasattr(command, "get_command"):
        name = rest.pop(0)
        command = command.get_command(command.context_class(command, info_name="hooklane"), name)
        if command is None:
            return f"no command {name!r}"
    try:
        command.make_parser(command.context_class(command, info_name="hooklane")).parse_args(args=rest)
    except Exception as error:  # of the parser of whichever click
        return str(error) or type(error).__name__
    return None


def test_every_hooklane_command_of_every_page_is_one_that_the_command_line_understands():
    wrong = []
    for page, command in commands():
        words = words_of(command)
        if words and (why := parsed(words)) and "requires an argument" not in why:  # running text names an option
            wrong.append(f"{page}: {command}: {why}")

    assert wrong == []


def test_a_command_that_does_not_exist_is_found():
    assert parsed(["lanes", "ls", "--state", "blocked"]) is None
    assert parsed(["lanes", "lss"]) == "no command 'lss'"
    assert parsed(["lanes", "ls", "--wrong"]) is not None
    assert words_of("FOO=1 hooklane send a '{\"b\": 1}' --key k  # why") == ["send", "a", '{"b": 1}', "--key", "k"]


def test_the_targets_that_contributors_are_told_of_exist():
    targets = re.findall(r"^make (\w+)", consoles("CONTRIBUTING")[0].text, re.MULTILINE)

    assert len(targets) >= 4
    done = subprocess.run(
        ["make", "--dry-run", "--question", *targets], cwd=ROOT, capture_output=True, text=True, timeout=scaled_s(30)
    )
    assert "No rule" not in done.stderr


# --- programs and statements ---


def test_the_programs_of_how_tos_run(installed: Installed, tmp_path: Path):
    env = installed.environment(tmp_path, {8000: 8000, 8787: 8787})
    (tmp_path / "pages").mkdir()
    words = ["python", ROOT / "tests" / "processes" / "examples" / "run_programs.py", DOCS / "how-to"]
    done = subprocess.run(
        [*words, tmp_path / "pages"], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=scaled_s(60)
    )
    with_programs = {page for page, _, block in ALL if block.language == "python" and page.startswith("how-to/")}
    ran = {f"how-to/{name}" for name in re.findall(r"^ran (\S+)$", done.stdout, re.MULTILINE)}

    assert done.returncode == 0, done.stdout + done.stderr
    assert with_programs - ran == {"how-to/test-with-pytest"}, "those are run by pytest, in test_howtos.py"


def test_every_program_is_on_a_page_whose_programs_run():
    pages = {page for page, _, block in ALL if block.language == "python"}

    assert {page for page in pages if not page.startswith("how-to/")} - FOLLOWED - GENERATED == set()


def statements(page: str) -> list[str]:
    (text,) = [block.text for name, _, block in ALL if name == page and block.language == "sql"]
    return [re.sub(r"--[^\n]*", "", part).strip() for part in text.split(";") if re.sub(r"--[^\n]*", "", part).strip()]


def test_the_statements_that_empty_the_data_of_a_key_do_so(postgres_url: str, tmp_path: Path):
    on_postgres, on_sqlite = statements("how-to/not-there-yet")
    path = tmp_path / "sender.db"
    for url in (f"sqlite:///{path}", postgres_url):
        Outbox(url).publish("customer.changed", {"name": "Ada"}, key="customer:3")
    with sqlite3.connect(path) as db:
        db.execute(on_sqlite)
        assert db.execute("SELECT CAST(data AS TEXT) FROM hooklane_event").fetchall() == [("null",)]
    db.close()
    with psycopg.connect(postgres_url) as conn:
        conn.execute(on_postgres.encode())
        assert conn.execute("SELECT data FROM hooklane.event").fetchall() == [(b"null",)]


def test_the_statement_that_keeps_the_newest_value_does_so():
    (upsert,) = statements("explain/freshness")
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE signals (vehicle, code, value, at, PRIMARY KEY (vehicle, code))")
    for value, at in ((80, 2), (70, 1), (90, 3)):
        db.execute(upsert.replace("(…)", "(?, ?, ?, ?)"), ("v1", "charge", value, at))

    assert db.execute("SELECT value, at FROM signals").fetchall() == [(90, 3)]
    db.close()


def test_the_grants_of_the_upgrade_are_ones_that_postgresql_takes(postgres_url: str):
    with psycopg.connect(postgres_url) as conn:
        conn.execute("CREATE ROLE serving_role")
        conn.execute("CREATE ROLE publishing_role")
        for grant in statements("UPGRADING"):
            conn.execute(grant.encode())
        conn.rollback()  # roles belong to the whole server


def test_the_request_on_the_page_about_the_wire_is_whole_and_signed():
    (text,) = [block.text for page, _, block in ALL if page == "reference/wire-protocol" and block.language == "http"]
    head, _, body = text.rstrip("\n").partition("\n\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head.splitlines()[1:])}
    vectors = json.loads((DOCS / "reference" / "wire-vectors.json").read_text("utf-8"))

    assert int(headers["content-length"]) == len(body.encode())
    assert json.loads(body)["id"] == headers["webhook-id"] == headers["idempotency-key"]
    assert headers["webhook-signature"] in json.dumps(vectors)


# --- what is read by a parser ---


def of_language(*languages: str) -> list[Any]:
    return [
        pytest.param(block.text, id=f"{page}-{number}") for page, number, block in ALL if block.language in languages
    ]


def strict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({name for name, _ in pairs}) == len(pairs), "a key that is there twice"
    return dict(pairs)


@pytest.mark.parametrize("text", of_language("json"))
def test_json_is_json(text: str):
    assert json.loads(text, object_pairs_hook=strict)


@pytest.mark.parametrize("text", of_language("yaml"))
def test_yaml_is_yaml(text: str):
    assert yaml.safe_load(text)


@pytest.mark.parametrize("text", of_language("toml"))
def test_toml_has_settings_that_exist(text: str):
    assert set(tomllib.loads(text)) <= {setting.name for setting in SETTINGS}


def test_the_environment_file_of_the_unit_has_settings_that_exist():
    (text,) = [block.text for page, _, block in ALL if page == "how-to/run-with-systemd" and block.language == "text"]
    names = {line.partition("=")[0] for line in text.splitlines()}

    assert names <= {setting.env for setting in SETTINGS}


class _Balanced(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("text", of_language("html"))
def test_html_closes_what_it_opens(text: str):
    parser = _Balanced()
    parser.feed(text)

    assert parser.open == []


@pytest.mark.parametrize("text", of_language("nginx"))
def test_nginx_understands_it(text: str, tmp_path: Path):
    """nginx itself where it is on this machine; else its grammar alone: directives, their ends and their braces."""
    tokens = re.findall(r"#[^\n]*|\"[^\"]*\"|[{};]|[^\s{};]+", text)
    tokens = [token for token in tokens if not token.startswith("#")]
    depth, words = 0, 0
    for token in tokens:
        assert token not in "{;" or words, "a directive without a name"
        depth += (token == "{") - (token == "}")
        assert depth >= 0
        assert token != "}" or words == 0, "a directive without its end"
        words = 0 if token in "{};" else words + 1
    assert (depth, words) == (0, 0)
    if (program := shutil.which("nginx")) is None:
        return
    inner = text.replace("listen 443 ssl;", "listen 127.0.0.1:8443;")
    inner = inner if "server {" in inner else f"server {{ listen 127.0.0.1:8443; {inner} }}"
    config = tmp_path / "nginx.conf"
    config.write_text(f"pid {tmp_path}/pid; error_log stderr; events {{}} http {{ access_log off; {inner} }}")
    done = subprocess.run(
        [program, "-t", "-c", config, "-p", tmp_path], capture_output=True, text=True, timeout=scaled_s(20)
    )
    assert done.returncode == 0, done.stderr
