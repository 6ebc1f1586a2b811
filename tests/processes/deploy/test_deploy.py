"""What is in deploy/: every file is read, names are compared with what a server exposes, start commands are run."""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from tests.support.http_client import Connection
from tests.support.pace import scaled_s
from tests.support.processes import Child, free_port
from tests.support.receiver import Sink
from tests.support.tree import ROOT, SOURCE

from hooklane.telemetry.inbox_metrics import InboxMetrics

DEPLOY = ROOT / "deploy"
KEY = "a-key-for-the-tests-of-deploy"
YAMLS = sorted(DEPLOY.rglob("*.yaml"))


def documents(path: Path) -> list[Any]:
    return [one for one in yaml.safe_load_all(path.read_text("utf-8")) if one is not None]


@pytest.mark.parametrize("path", YAMLS, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_every_yaml_file_can_be_read_and_is_not_empty(path: Path):
    assert documents(path)


def named(text: str) -> set[str]:
    """The metrics that an expression or a text names."""
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"\bhooklane_[a-z_]+", text)}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Child]]:
    """Starts words of a deployment as a process, with `hooklane` and `python` from the tree under test."""
    children: list[Child] = []

    def run(words: list[str], env: dict[str, str]) -> Child:
        own = {"hooklane": [sys.executable, "-m", "hooklane"], "python": [sys.executable]}
        command = [*own[Path(words[0]).name], *words[1:]]
        child = Child(
            command,
            log=tmp_path / f"child-{len(children)}.log",
            env={"PYTHONPATH": SOURCE, "PYTHONUNBUFFERED": "1", **env},
            cwd=tmp_path,
        )
        children.append(child)
        return child

    yield run
    for child in children:
        child.close()
        print(f"--- {child}\n{child.output()}")


async def exposed(port: int) -> set[str]:
    """The metrics of a server, and those that an inbox adds in the application that receives."""
    async with Connection(port, headers={"authorization": f"Bearer {KEY}"}) as client:
        text = (await client.call("GET", "/metrics")).body.decode()
    registry = CollectorRegistry()
    InboxMetrics(registry)
    text += generate_latest(registry).decode()
    kinds = re.findall(r"^# TYPE (\S+) (\S+)", text, re.MULTILINE)
    return {name for name, _ in kinds}


def ready(child: Child, port: int) -> None:
    """Wait until the probe that containers use says so."""

    def asked() -> bool:
        env = {**os.environ, "PYTHONPATH": SOURCE, "HOOKLANE_PORT": str(port), "HOOKLANE_API_KEY": KEY}
        command = [sys.executable, "-m", "hooklane.cli.ready"]
        return subprocess.run(command, env=env, capture_output=True, timeout=scaled_s(30)).returncode == 0

    child.wait_until(asked, what="the probe to be content", within_s=60)


async def test_the_unit_of_systemd_starts_a_server_whose_metrics_dashboard_and_alerts_name(
    start: Callable[..., Child], tmp_path: Path
):
    unit = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    text = (DEPLOY / "systemd" / "hooklane.service").read_text()
    unit.read_string(text)
    service = unit["Service"]
    settings = dict(line.split("=", 2)[1:] for line in text.splitlines() if line.startswith("Environment="))
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials" / "api_key").write_text(KEY)
    places = {"%d": str(tmp_path / "credentials"), "/var/lib/hooklane": str(tmp_path)}
    env = {name: _replaced(value, places) for name, value in settings.items()}
    port = free_port()

    child = start(shlex.split(service["ExecStart"]), {**env, "HOOKLANE_PORT": str(port)})
    ready(child, port)

    wanted = named((DEPLOY / "grafana" / "hooklane.json").read_text())
    wanted |= named((DEPLOY / "prometheus" / "alerts.yaml").read_text())
    assert len(wanted) >= 12
    assert wanted - await exposed(port) == set()
    assert (tmp_path / "hooklane.db").exists()
    assert child.stop() == 0
    assert service["User"] == "hooklane"
    assert int(service["TimeoutStopSec"]) > 10
    assert unit["Unit"]["StartLimitIntervalSec"] == "0", "a server whose database comes up later is started until then"
    assert int(service["RestartSec"]) >= 1


def test_the_key_that_compose_is_given_is_read_by_containers_and_by_no_other_user_of_the_host(tmp_path: Path):
    """Naive: `chmod 600`. Compose mounts the file with its rights, and no container runs as its owner."""
    comment = (DEPLOY / "compose.yaml").read_text().partition("\nname:")[0]
    [recipe] = re.findall(r"#   (install .*api_key.*)", comment)
    assert recipe in (ROOT / "docs" / "how-to" / "run-with-docker.md").read_text()
    subprocess.run(["sh", "-c", f"umask 077; {recipe}"], cwd=tmp_path, check=True, timeout=scaled_s(20))

    assert (tmp_path / "secrets").stat().st_mode & 0o077 == 0
    assert (tmp_path / "secrets" / "api_key").stat().st_mode & 0o004


def test_no_alert_waits_for_a_counter_that_is_not_there_to_be_zero():
    """Naive: `rate(…) == 0`. A counter with labels is not there before its first event, and nothing equals nothing."""
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"][0]["rules"]
    silent = [rule["alert"] for rule in rules if "== 0" in rule["expr"] and "absent(" not in rule["expr"]]

    assert silent == []


def _replaced(text: str, places: dict[str, str]) -> str:
    for old, new in places.items():
        text = text.replace(old, new)
    return text


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path):
    """Where systemd is on this machine; the program is one that exists here."""
    program = shutil.which("systemd-analyze")
    text = (DEPLOY / "systemd" / "hooklane.service").read_text()
    assert "ExecStart=/opt/hooklane/bin/hooklane serve" in text
    if program is None:
        print("systemd-analyze is not on this machine: the unit was only read")
        return
    unit = tmp_path / "hooklane.service"
    unit.write_text(text.replace("/opt/hooklane/bin/hooklane", sys.executable))
    ended = subprocess.run([program, "verify", unit], capture_output=True, text=True, timeout=scaled_s(60))

    assert (ended.returncode, [line for line in ended.stderr.splitlines() if "hooklane.service" in line]) == (0, [])


def instructions() -> dict[str, list[str]]:
    """The Dockerfile's last stage, by instruction."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("FROM "):
            found = {}
        word, _, rest = line.strip().partition(" ")
        if word.isupper():
            found.setdefault(word, []).append(rest.strip())
    return found


def test_the_image_does_not_run_as_root_and_starts_a_server_that_its_health_check_sees(
    start: Callable[..., Child], tmp_path: Path
):
    image = instructions()
    env = dict(pair.split("=", 1) for pair in shlex.split(image["ENV"][0]) if pair.startswith("HOOKLANE_"))
    check = json.loads(image["HEALTHCHECK"][0].partition("CMD ")[2])
    words = [*json.loads(image["ENTRYPOINT"][0]), *json.loads(image["CMD"][0])]
    port = free_port()
    mine = {
        **env,
        "HOOKLANE_DB": env["HOOKLANE_DB"].replace("/data", str(tmp_path)),
        "HOOKLANE_PORT": str(port),
        "HOOKLANE_API_KEY": KEY,
    }

    before = start(check, mine)
    assert before.wait() == 1, "nobody listens yet"
    child = start(words, mine)
    ready(child, port)

    assert start(check, mine).wait() == 0
    assert start(check, {**mine, "HOOKLANE_API_KEY": "another-key-than-the-servers"}).wait() == 1
    assert env["HOOKLANE_HOST"] == "0.0.0.0"
    assert image["USER"] == ["10001:10001"]
    assert image["EXPOSE"] == [env["HOOKLANE_PORT"]]
    assert child.stop() == 0


def test_what_the_image_copies_is_there_and_let_in():
    text = (DEPLOY / "Dockerfile").read_text()
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE) for word in line.split()[:-1]]
    let_in = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]

    assert {"src", "pyproject.toml", "requirements"} <= set(copied)
    assert [name for name in copied if not (ROOT / name).exists() or name not in let_in] == []


def test_with_what_the_image_copies_a_wheel_can_be_begun(tmp_path: Path):
    """The build of a wheel runs `tools.vendor`, and the image is made of nothing but what is copied."""
    text = (DEPLOY / "Dockerfile").read_text()
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE):
        for name in line.split()[:-1]:
            to, found = tmp_path / name, ROOT / name
            shutil.copytree(found, to) if found.is_dir() else shutil.copy(found, to)
    here = "type('Here', (), {'root': '.', 'target_name': 'sdist'})"
    hook = f"from hatch_build import WholeWheel; WholeWheel.initialize({here}, '', {{}})"
    done = subprocess.run([sys.executable, "-c", hook], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


async def test_the_services_of_compose_take_deliver_and_migrate_on_one_postgresql(
    start: Callable[..., Child], postgres_url: str, sink: Sink
):
    [compose] = documents(DEPLOY / "compose.yaml")
    services = compose["services"]
    env = {"HOOKLANE_DB": postgres_url, "HOOKLANE_API_KEY": KEY, "HOOKLANE_EGRESS_ALLOW": "127.0.0.0/8"}

    migrate = start(["hooklane", *services["migrate"]["command"]], env)
    assert migrate.wait(within_s=60) == 0
    ports = {name: free_port() for name in ("api-1", "worker")}
    children = {
        name: start(["hooklane", *services[name]["command"]], {**env, "HOOKLANE_PORT": str(port)})
        for name, port in ports.items()
    }
    for name, port in ports.items():
        ready(children[name], port)
    async with Connection(ports["api-1"], headers={"authorization": f"Bearer {KEY}"}) as client:
        made = await client.call("POST", "/api/v1/endpoints", {"url": sink.url(), "name": "shop"})
        sent = await client.call("POST", "/api/v1/events", {"type": "a", "key": "k", "data": {}})

    assert (made.status, sent.status) == (201, 202)
    await sink.arrived(1, within_s=60)
    assert [child.stop() for child in children.values()] == [0, 0]
    assert services["api-2"]["command"] == services["api-1"]["command"]
    assert services["worker"]["deploy"]["replicas"] == 3
    assert set(services) == {"postgres", "migrate", "api-1", "api-2", "worker", "prometheus", "grafana"}
    for name in ("migrate", "api-1", "api-2", "worker"):
        assert services[name]["environment"]["HOOKLANE_API_KEY_FILE"] == "/run/secrets/api_key"
        assert services[name]["read_only"] is True


def test_prometheus_asks_the_services_of_compose_with_their_key():
    [compose] = documents(DEPLOY / "compose.yaml")
    [prometheus] = documents(DEPLOY / "prometheus" / "prometheus.yaml")
    [job] = prometheus["scrape_configs"]
    hosts = [target.partition(":")[0] for one in job["static_configs"] for target in one["targets"]]
    hosts += [name for one in job["dns_sd_configs"] for name in one["names"]]

    assert {"api-1", "api-2", "worker"} == set(hosts) <= set(compose["services"])
    assert job["authorization"]["credentials_file"] == "/run/secrets/api_key"
    assert "api_key" in compose["services"]["prometheus"]["secrets"]
    assert prometheus["rule_files"] == ["alerts.yaml"]


def test_every_alert_says_what_is_wrong_and_what_to_do():
    [alerts] = documents(DEPLOY / "prometheus" / "alerts.yaml")
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]

    assert len({rule["alert"] for rule in rules}) == len(rules) >= 8
    for rule in rules:
        assert rule["labels"]["severity"] in ("page", "warn")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]
        assert rule["expr"].count("(") == rule["expr"].count(")")


def test_the_dashboard_has_a_question_in_every_panel():
    board = json.loads((DEPLOY / "grafana" / "hooklane.json").read_text())

    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in board["panels"]:
        assert panel["title"]
        assert all("hooklane_" in target["expr"] for target in panel["targets"])


def test_the_manifests_of_kubernetes_probe_as_the_image_does_and_run_what_compose_runs():
    folder = DEPLOY / "kubernetes"
    [kustomization] = documents(folder / "kustomization.yaml")
    manifests = [one for name in kustomization["resources"] for one in documents(folder / name)]
    found = {(one["kind"], one["metadata"]["name"]): one for one in manifests}
    [compose] = documents(DEPLOY / "compose.yaml")
    check = json.loads(instructions()["HEALTHCHECK"][0].partition("CMD ")[2])
    same = {"api": "api-1", "worker": "worker"}
    for name, service in same.items():
        pod = found["Deployment", f"hooklane-{name}"]["spec"]["template"]["spec"]
        [container] = pod["containers"]
        assert container["args"] == compose["services"][service]["command"]
        assert container["readinessProbe"]["exec"]["command"] == check
        assert container["startupProbe"]["exec"]["command"] == check
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert pod["terminationGracePeriodSeconds"] > 10
        assert ("PodDisruptionBudget", f"hooklane-{name}") in found
    for one in manifests:
        # Each would be told HOOKLANE_PORT=tcp://… for the service `hooklane`.
        if one["kind"] in ("Deployment", "Job"):
            assert one["spec"]["template"]["spec"]["enableServiceLinks"] is False, one["metadata"]["name"]
    migrate = found["Job", "hooklane-migrate"]["spec"]["template"]["spec"]["containers"][0]
    assert migrate["args"] == compose["services"]["migrate"]["command"]
    service = found["Service", "hooklane"]["spec"]["selector"]
    assert service.items() <= found["Deployment", "hooklane-api"]["spec"]["template"]["metadata"]["labels"].items()


def test_kubectl_builds_the_manifests():
    """Where kubectl is on this machine; it needs no cluster for this."""
    program = shutil.which("kubectl")
    if program is None:
        print("kubectl is not on this machine: the manifests were only read")
        return
    ended = subprocess.run([program, "kustomize", DEPLOY / "kubernetes"], capture_output=True, timeout=scaled_s(60))

    assert ended.returncode == 0, ended.stderr.decode()
    kinds = [one["kind"] for one in yaml.safe_load_all(ended.stdout)]
    assert sorted(set(kinds)) == ["ConfigMap", "Deployment", "Job", "Namespace", "PodDisruptionBudget", "Service"]
