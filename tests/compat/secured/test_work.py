"""Every client does its work through TLS, with a certificate, and with a password by each mechanism.

Work is: a topic made, records written, read by a group and committed, the offsets seen by an administrator, the topic
deleted; so all of the client's kinds of connections come to pass. By certificate and password it is Alice's work, to
whom that is allowed: the node has understood who comes.
"""

import pathlib
from collections.abc import Callable, Iterable
from typing import Final

import pytest
from _pytest.mark.structures import ParameterSet
from tests.compat.secured.access import Access
from tests.compat.secured.columns import FILLS, GO, MARKS
from tests.compat.secured.conftest import GetDriver
from tests.compat.secured.doors import Secured
from tests.compat.secured.jobs import WORK, Job
from tests.compat.secured.rules import PLAIN, SCRAM_256, SCRAM_512

pytestmark = MARKS

WAYS: Final[dict[str, Callable[[Secured], Access]]] = {
    "tls": lambda secured: secured.tls(),
    "mtls": lambda secured: secured.tls("strict", secured.certificates.alice),
    PLAIN: lambda secured: secured.sasl(PLAIN),
    SCRAM_256: lambda secured: secured.sasl(SCRAM_256),
    SCRAM_512: lambda secured: secured.sasl(SCRAM_512),
    "without-tls": lambda secured: secured.sasl(SCRAM_512, door="bare"),
}
ROWS: Final = {PLAIN: "sasl-plain", SCRAM_256: "sasl-scram", SCRAM_512: "sasl-scram", "without-tls": "sasl-scram"}
# What is over at once; `make compat` runs all.
QUICK: Final = {
    "confluent-kafka": ("tls", SCRAM_512),
    "aiokafka": ("mtls", SCRAM_512),
    "kafka-python": ("tls", SCRAM_256),
    "kafkajs": (PLAIN,),
    "franz-go": ("tls", SCRAM_512),
    "Java 4.x": ("mtls", SCRAM_512),
}
OLD_SCRAM: Final = "librdkafka before 2.6.1 answers SCRAM with a nonce that is not the server's"


def _cases(clients: Iterable[str]) -> Iterable[ParameterSet]:
    for client in clients:
        for way in WAYS:
            marks = [FILLS[client](ROWS.get(way, way))]
            if way not in QUICK.get(client, ()):
                marks.append(pytest.mark.thorough)
            if client == "kcat" and ROWS.get(way) == "sasl-scram":
                marks.append(pytest.mark.xfail(reason=OLD_SCRAM))
            yield pytest.param(client, way, id=f"{client}-{way}", marks=marks)


@pytest.mark.parametrize(("client", "way"), list(_cases(client for client in FILLS if client not in GO)))
def test_work(secured: Secured, driver: GetDriver, fresh: str, client: str, way: str) -> None:
    _works(secured, driver, fresh, client, way)


@pytest.mark.parametrize(("client", "way"), list(_cases(GO)))
def test_work_in_go(
    go_clients: pathlib.Path, secured: Secured, driver: GetDriver, fresh: str, client: str, way: str
) -> None:
    _works(secured, driver, fresh, client, way)


def _works(secured: Secured, driver: GetDriver, name: str, client: str, way: str) -> None:
    error = driver(client)(Job(WAYS[way](secured), WORK, name))
    assert not error, error
