"""kafkajs, the usual client of Node.js: each scenario of `kafkajs_client.js` is named after the feature it shows."""

import json
import os
import pathlib
import subprocess
from typing import Final

import pytest
from tests.compat.features import NOT_OFFERED, PLAIN_FEATURES
from tests.compat.report import cells
from tests.support.npm import node_modules

VERSION: Final = "2.2.4"
CLIENT: Final = pathlib.Path(__file__).with_name("kafkajs_client.js")
RUN_S_MAX: Final = 90.0
FILLS: Final = cells("kafkajs", VERSION)
# One scenario of each group of features, of those that are over at once; `make compat` runs all.
QUICK: Final = {"headers", "seek", "group-commit", "groups-described", "txn-offsets"}
CASES: Final = [
    pytest.param(feature, marks=[FILLS(feature), *([] if feature in QUICK else [pytest.mark.thorough])])
    for feature in PLAIN_FEATURES
    if ("kafkajs", feature) not in NOT_OFFERED
]


@pytest.fixture(scope="module")
def modules() -> pathlib.Path:
    return node_modules(f"kafkajs-{VERSION}", f"kafkajs@{VERSION}")


@pytest.mark.parametrize("feature", CASES)
def test_kafkajs(modules: pathlib.Path, bootstrap: str, name: str, feature: str) -> None:
    environment = {**os.environ, "NODE_PATH": str(modules), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    command = ["node", str(CLIENT), bootstrap, name, feature]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=RUN_S_MAX)
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    assert told == [{"scenario": feature, "error": ""}], ran.stderr
