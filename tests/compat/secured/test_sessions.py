"""Clients of long-lived connections prove again and again who they are, and nobody notices.

The door `short` ends sessions after SESSION_MS. Each client writes and reads for several of them, all at once.
"""

import pathlib
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest
from bench.raw_client import create_topic
from tests.compat.secured.columns import FILLS, MARKS
from tests.compat.secured.conftest import GetDriver
from tests.compat.secured.doors import Secured
from tests.compat.secured.jobs import STAY, Driver, Job
from tests.compat.secured.rules import PLAIN, SCRAM_256, SCRAM_512, SESSION_MS
from tests.support.exposition import parse
from tests.support.node import IS_HUTONG

pytestmark = MARKS
SECONDS: Final = 3 * SESSION_MS / 1000
RENEWING: Final = ("Java 4.x", "franz-go", "confluent-kafka", "kafkajs")
RENEWED_MIN: Final = 2  # by each of them: two connections, at least, each once
RETURNING: Final = ("kafka-python", "aiokafka")


def _fills(test: Callable[..., None]) -> Callable[..., None]:
    for client in RENEWING:
        test = FILLS[client]("reauthentication")(test)
    return test


@_fills
@pytest.mark.thorough
@pytest.mark.parametrize("mechanism", [PLAIN, SCRAM_256, SCRAM_512])
def test_sessions_are_renewed_under_load(
    go_clients: pathlib.Path, secured: Secured, driver: GetDriver, fresh: str, mechanism: str
) -> None:
    before = _renewed(secured, mechanism) if IS_HUTONG else 0
    _stay(secured, {client: driver(client) for client in RENEWING}, mechanism, fresh)
    if IS_HUTONG:
        assert _renewed(secured, mechanism) - before >= len(RENEWING) * RENEWED_MIN


@pytest.mark.thorough
def test_who_does_not_renew_a_session_comes_again(secured: Secured, driver: GetDriver, fresh: str) -> None:
    _stay(secured, {client: driver(client) for client in RETURNING}, PLAIN, fresh)


def _stay(secured: Secured, drivers: dict[str, Driver], mechanism: str, name: str) -> None:
    """Every client is busy for several sessions, all at once, and none sees an error."""
    access = secured.sasl(mechanism, door="short")
    jobs = {client: Job(access, STAY, f"{name}-{index}", SECONDS) for index, client in enumerate(drivers)}
    for job in jobs.values():
        create_topic(secured.plain_beside("short"), job.name, records=0)
    with ThreadPoolExecutor(len(drivers)) as pool:
        told = dict(zip(drivers, pool.map(lambda client: drivers[client](jobs[client]), drivers), strict=True))
    assert told == dict.fromkeys(drivers, "")


def _renewed(secured: Secured, mechanism: str) -> float:
    """The number of renewed logins on open connections, by the node's metrics."""
    with urllib.request.urlopen(f"http://{secured.addresses['metrics-short']}/metrics?detail=full") as page:
        families = parse(page.read().decode())
    samples = families["hutong_sasl_reauthentications_total"].samples
    return sum(value for (_, labels), value in samples.items() if ("mechanism", mechanism) in labels)
