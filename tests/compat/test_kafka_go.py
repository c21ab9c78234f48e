"""franz-go and sarama, the clients of Go: each scenario of `kafka_go/` is named after the feature that it shows."""

import functools
import json
import pathlib
import re
import subprocess
from typing import Final

import pytest
from tests.compat.features import NOT_OFFERED, PLAIN_FEATURES
from tests.compat.report import cells
from tests.support.golang import BUILD_S_MAX, KAFKA_SOURCE, kafka_clients

RUN_S_MAX: Final = 90.0
pytestmark = pytest.mark.timeout(BUILD_S_MAX + RUN_S_MAX + 60)
MODULES: Final = {"franz-go": "github.com/twmb/franz-go", "sarama": "github.com/IBM/sarama"}
# One scenario of each group of features, of those that are over at once; `make compat` runs all.
QUICK: Final = {
    "franz-go": {"compression", "seek", "group-rebalance", "groups-described", "txn-offsets"},
    "sarama": {"compression", "offsets-for-times", "group-static", "topics", "txn-offsets"},
}


def version(client: str) -> str:
    found = re.search(rf"^\s{re.escape(MODULES[client])} v(\S+)$", (KAFKA_SOURCE / "go.mod").read_text(), re.MULTILINE)
    assert found, client
    return found[1]


def cases(client: str) -> list[object]:
    fills = cells(client, functools.partial(version, client))
    return [
        pytest.param(
            client,
            feature,
            marks=[fills(feature), *([] if feature in QUICK[client] else [pytest.mark.thorough])],
            id=feature,
        )
        for feature in PLAIN_FEATURES
        if (client, feature) not in NOT_OFFERED
    ]


@pytest.fixture(scope="session")
def go_clients() -> pathlib.Path:
    return kafka_clients()


def run(program: pathlib.Path, client: str, bootstrap: str, name: str, feature: str) -> None:
    command = [str(program), client, bootstrap, name, feature]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=RUN_S_MAX)
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    assert told == [{"scenario": feature, "error": ""}], ran.stderr


@pytest.mark.parametrize(("client", "feature"), cases("franz-go"))
def test_franz_go(go_clients: pathlib.Path, bootstrap: str, name: str, client: str, feature: str) -> None:
    run(go_clients, client, bootstrap, name, feature)


@pytest.mark.parametrize(("client", "feature"), cases("sarama"))
def test_sarama(go_clients: pathlib.Path, bootstrap: str, name: str, client: str, feature: str) -> None:
    run(go_clients, client, bootstrap, name, feature)
