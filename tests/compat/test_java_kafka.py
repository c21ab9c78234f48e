"""Java's own kafka-clients, in a version of 4.x and one of 3.x: the same program, compiled against each.

The first test of a version runs all its scenarios in one Java process, since its start is slow; a test that is run once
more runs its scenario alone.
"""

import json
import pathlib
import secrets
import subprocess
from collections.abc import Callable, Iterable
from typing import Final

import pytest
from _pytest.mark.structures import ParameterSet
from tests.compat.report import cells
from tests.support.kafka_tools import QUICK_START, peer_jars
from tests.support.maven import java_program

FOLDER: Final = pathlib.Path(__file__).parent / "java_kafka"
COMMON, NEWER = FOLDER / "KafkaScenarios.java", FOLDER / "KafkaScenarios4.java"
VERSIONS: Final = {"Java 4.x": "4.3.0", "Java 3.x": "3.9.2"}
NEWEST: Final = "Java 4.x"
"""The other one runs with the thorough tests."""
RUN_S_MAX: Final = 240.0
# Scenarios that are not named after the one row they fill.
ROWS: Final = {
    "group-offsets": ("group-offsets", "groups-deleted"),
    "described-848": ("group-848", "groups-described"),
    "pattern": ("group-848",),
    "exactly-once-848": ("group-848", "txn-offsets"),
    "group-configs": ("configs",),
    "force-terminated": ("describe-transactions",),
}
SCENARIOS: Final = (
    "produce-acks",
    "produce-idempotent",
    "compression",
    "headers",
    "large-records",
    "produce-errors",
    "consume-range",
    "seek",
    "offsets-for-times",
    "out-of-range",
    "group-rebalance",
    "group-cooperative",
    "group-static",
    "group-commit",
    "group-848",
    "txn-commit",
    "txn-abort",
    "txn-fencing",
    "txn-offsets",
    "topics",
    "partitions",
    "configs",
    "cluster",
    "client-quotas",
    "groups-described",
    "group-offsets",
    "delete-records",
    "list-offsets",
    "log-dirs",
    "describe-transactions",
)
OF_VERSION_4: Final = (
    "described-848",
    "pattern",
    "exactly-once-848",
    "force-terminated",
    "group-share",
    "group-configs",
)
pytestmark = pytest.mark.timeout(300)

Run = Callable[[str, str], "str | None"]


def _cases() -> Iterable[ParameterSet]:
    for client, version in VERSIONS.items():
        fills = cells(client, version)
        for scenario in (*SCENARIOS, *(OF_VERSION_4 if client == NEWEST else ())):
            rows = ROWS.get(scenario, (scenario,))
            nulls = ("nulls",) if scenario == "headers" else ()
            marks = [fills(*rows, *nulls), *([pytest.mark.thorough] if client != NEWEST else [])]
            yield pytest.param(client, scenario, id=f"{version}-{scenario}", marks=marks)


@pytest.fixture(scope="module")
def run(bootstrap: str, request: pytest.FixtureRequest) -> Run:
    """A function from a client and a scenario to the error that it ended with."""
    waiting: dict[str, list[str]] = {client: [] for client in VERSIONS}
    for item in request.session.items:
        case = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if item.path == pathlib.Path(__file__) and "scenario" in case:
            waiting[str(case["client"])].append(str(case["scenario"]))
    seen: dict[tuple[str, str], str | None] = {}

    def result(client: str, scenario: str) -> str | None:
        if (client, scenario) not in seen:
            first, waiting[client] = waiting[client], []
            errors = _run(client, bootstrap, first or [scenario])
            seen.update({(client, name): error for name, error in errors.items()})
        return seen.pop((client, scenario), "the Java process did not come to it")

    return result


@pytest.mark.parametrize(("client", "scenario"), list(_cases()))
def test_scenario(client: str, scenario: str, run: Run) -> None:
    error = run(client, scenario)
    assert error is None, error


def _run(client: str, bootstrap: str, scenarios: list[str]) -> dict[str, str | None]:
    is_newest = client == NEWEST
    program = java_program(
        f"kafka-clients-{VERSIONS[client]}",
        COMMON,
        f"org.apache.kafka:kafka-clients:{VERSIONS[client]}",
        "org.slf4j:slf4j-nop:1.7.36",
        also=[NEWER] if is_newest else [],
        held=peer_jars() if is_newest else None,
        options=QUICK_START,
    )
    words = [*program, bootstrap, f"java-{secrets.token_hex(4)}", *scenarios]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=RUN_S_MAX)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert results, done.stderr[-2000:]
    return {result["scenario"]: result["error"] for result in results}
