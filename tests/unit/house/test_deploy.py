"""The files in `deploy/`, as far as they can be checked without a container engine: parsed, and held against the code.

The steps of the Dockerfile run in an environment of Python instead of an image. Nothing here builds an image or starts
a container.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from bench.processes import ReadyProcess

from hutong.cli.node import serve
from hutong.server.configuration.loader import load
from hutong.server.configuration.settings import Settings
from hutong.server.listeners.exposure import check_broker, check_metrics

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
INSTRUCTIONS = {"FROM", "ARG", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"}
INSTRUCTIONS |= {"ENTRYPOINT", "CMD"}
INSTALL_SECONDS_MAX = 110


def dockerfile() -> list[tuple[str, str]]:
    """The instructions with their arguments, joined over continued lines."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def environment() -> dict[str, str]:
    """The variables that the image sets."""
    pairs = [shlex.split(words) for name, words in dockerfile() if name == "ENV"]
    return dict(pair.split("=", 1) for words in pairs for pair in words)


def settings_of(words: list[str]) -> Settings:
    """What `hutong serve` makes of these words in the image. Raises UsageError."""
    assert words[0] == "serve"
    options = serve._parser().parse_args(words[1:])
    variables = {name: value for name, value in environment().items() if name.startswith("HUTONG_")}
    settings = load(None, flags=serve.flags_of(options), environment=variables).settings
    check_broker(settings)
    check_metrics(settings)
    return settings


def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / "compose.yml").read_text()))


def manifests() -> dict[str, dict[str, Any]]:
    """The objects by kind and name."""
    found = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "hutong.yml").read_text()))
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in found}


def test_the_image_is_of_a_user_without_rights_and_has_volume_ports_and_a_health_check() -> None:
    steps = dockerfile()
    assert {name for name, _ in steps} <= INSTRUCTIONS
    last = steps[max(number for number, (name, _) in enumerate(steps) if name == "FROM") :]
    by_name = dict(last)
    assert by_name["USER"] == "hutong"
    assert [name for name, _ in last].index("USER") < [name for name, _ in last].index("ENTRYPOINT")
    settings = settings_of(json.loads(by_name["CMD"]))
    assert by_name["VOLUME"] == str(settings.node.data_dir)
    assert settings.metrics.listen is not None
    assert by_name["EXPOSE"].split() == [str(settings.kafka.listen.port), str(settings.metrics.listen.port)]
    assert f"127.0.0.1:{settings.metrics.listen.port}/healthz" in by_name["HEALTHCHECK"]


def test_the_context_holds_what_the_build_reads() -> None:
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert [name for name in kept if not (ROOT / name).exists()] == []
    assert {"src", "pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in"} == set(kept)


def test_the_nodes_of_the_compose_file_are_one_cluster() -> None:
    services = {name: one for name, one in compose()["services"].items() if name.startswith("hutong-")}
    made = {name: settings_of(one["command"].split()) for name, one in services.items()}
    assert [one.node.id for one in made.values()] == [1, 2, 3]
    assert len({one.cluster.coordinator for one in made.values()}) == 1
    for name, one in made.items():
        assert one.cluster.advertised is not None
        assert one.cluster.advertised.host == name
        assert services[name]["ports"] == [f"127.0.0.1:{one.kafka.listen.port}:{one.kafka.listen.port}"]
        assert str(one.cluster.secret_file) == f"/run/secrets/{services[name]['secrets'][0]}"
        (volume,) = services[name]["volumes"]
        assert volume.partition(":")[0] in compose()["volumes"]
    assert compose()["secrets"].keys() == {"cluster"}


def test_the_pods_of_the_stateful_set_are_one_cluster() -> None:
    pod = manifests()["StatefulSet/hutong"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    script = container["args"][0].removeprefix("exec hutong ")
    for number in range(3):
        replaced = script.replace("$((${HOSTNAME##*-} + 1))", str(number + 1)).replace("$HOSTNAME", f"hutong-{number}")
        settings = settings_of(replaced.split())
        assert settings.node.id == number + 1
        assert str(settings.cluster.advertised) == f"hutong-{number}.hutong-nodes:9192"
    assert "$" not in replaced
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert settings.metrics.listen is not None
    listens = {"kafka": settings.kafka.listen, "metrics": settings.metrics.listen, "cluster": settings.cluster.listen}
    assert ports == {name: address.port for name, address in listens.items()}
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted == {"data": str(settings.node.data_dir), "secret": str(settings.cluster.secret_file.parent)}  # type: ignore[union-attr]


def test_services_probes_and_budget_fit_the_pods() -> None:
    objects = manifests()
    stateful = objects["StatefulSet/hutong"]["spec"]
    labels = stateful["template"]["metadata"]["labels"]
    container = stateful["template"]["spec"]["containers"][0]
    ports = {port["name"] for port in container["ports"]}
    for name in ("Service/hutong", "Service/hutong-nodes"):
        assert objects[name]["spec"]["selector"] == labels
        assert {port["targetPort"] for port in objects[name]["spec"]["ports"]} <= ports
    assert f"Service/{stateful['serviceName']}" in objects
    assert objects["Service/hutong-nodes"]["spec"]["publishNotReadyAddresses"] is True
    assert objects["PodDisruptionBudget/hutong"]["spec"]["selector"]["matchLabels"] == labels
    assert stateful["selector"]["matchLabels"] == labels
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/healthz",
        "liveness": "/healthz",
        "readiness": "/readyz",
    }
    assert {probe["port"] for probe in probes.values()} == {"metrics"}
    user = re.search(r"useradd --uid (\d+)", dict(dockerfile()).get("RUN", ""))
    assert user is not None
    assert stateful["template"]["spec"]["securityContext"]["runAsUser"] == int(user[1])


@pytest.mark.long
def test_the_steps_of_the_image_make_a_node_that_is_healthy(tmp_path: Path) -> None:
    """In an environment of Python: with the files of the context alone, and the image's variables, ports aside."""
    uv = ROOT / ".tools" / "uv"
    if not uv.exists():
        pytest.skip("uv is elsewhere here")
    context, target = tmp_path / "source", tmp_path / "hutong"
    context.mkdir()
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if line.startswith("!"):
            source = ROOT / line[1:]
            ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
            shutil.copytree(source, context / line[1:], ignore=ignored) if source.is_dir() else shutil.copy(
                source, context
            )
    extras = next(words.partition("=")[2] for name, words in dockerfile() if name == "ARG")
    (install,) = [words for name, words in dockerfile() if name == "RUN" and "pip install" in words]
    assert install == '/opt/hutong/bin/pip install --no-cache-dir ".[$EXTRAS]"'
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, target], check=True)
    python = str(target / "bin" / "python")
    command = [str(uv), "pip", "install", "--quiet", "--python", python, f"{context}[{extras}]"]
    subprocess.run(command, check=True, timeout=INSTALL_SECONDS_MAX)
    variables = {**environment(), "HUTONG_NODE_DATA_DIR": str(tmp_path / "data")}
    del variables["PATH"]
    variables |= dict.fromkeys(("HUTONG_KAFKA_LISTEN", "HUTONG_METRICS_LISTEN"), "0.0.0.0:0")
    entry = [str(target / "bin" / word) for word in json.loads(dict(dockerfile())["ENTRYPOINT"])]
    words = json.loads(dict(dockerfile())["CMD"])
    with ReadyProcess([*entry, *words], log_path=str(tmp_path / "log"), environment=variables) as node:
        port = node.fields["metrics"].rpartition(":")[2]
        health = json.loads(dict(dockerfile())["HEALTHCHECK"].partition("CMD ")[2])
        health = [word.replace("9464", port) for word in health]
        assert subprocess.run([target / "bin" / health[0], *health[1:]], check=False).returncode == 0
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=30) as page:
            assert page.read() == b"ready\n"
    assert subprocess.run([target / "bin" / health[0], *health[1:]], check=False, capture_output=True).returncode != 0
    done = subprocess.run(
        [target / "bin" / "hutong", "topic", "--help"], check=False, capture_output=True, env=os.environ
    )
    assert done.returncode == 0
