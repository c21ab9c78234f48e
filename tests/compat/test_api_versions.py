"""Every version of the APIs that clients of Kafka 4.3 use: asked, decoded by kio, and its meaning checked."""

from collections.abc import Callable, Iterator

import pytest
from bench.kafka_bytes import api_versions, api_versions_request
from bench.raw_client import RawConnection, create_topic
from kio.schema.errors import ErrorCode
from tests.compat.scenarios import API_VERSIONS, KAFKA_4_3, METADATA, PRODUCE, SCENARIOS, VALUES, Place, append
from tests.support.kio_client import KioClient
from tests.support.node import IS_HUTONG
from tests.support.waiting import until

CASES = [
    pytest.param(SCENARIOS[key], version, id=f"{SCENARIOS[key].__name__}-v{version}")
    for key, (least, greatest, _) in KAFKA_4_3.items()
    for version in range(least, greatest + 1)
]


@pytest.fixture
def place(bootstrap: str, name: str) -> Iterator[Place]:
    create_topic(bootstrap, name, records=0)
    client = KioClient(bootstrap)
    try:
        (found,) = client.call(METADATA, 12, topics=[{"name": name}]).topics
        here = Place(client, bootstrap, name, found.topic_id)
        until(lambda: append(here, 9, VALUES), what="the topic takes records")
        yield here
    finally:
        client.close()


@pytest.mark.parametrize(("scenario", "version"), CASES)
def test_version(scenario: Callable[[Place, int], None], version: int, place: Place) -> None:
    scenario(place, version)


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(bootstrap: str, version: int) -> None:
    with RawConnection(bootstrap) as connection:
        error, ranges = api_versions(connection.call(api_versions_request(api_version=version)))
        assert error == ErrorCode.unsupported_version
        assert ranges[API_VERSIONS] == (0, 4)
        error, ranges = api_versions(connection.call(api_versions_request()))  # the same connection goes on
        assert error == 0
        assert ranges[PRODUCE] == (0, 13)


# Transactions and the groups of KIP-848 and KIP-932 take several requests each: whole clients drive them, unit tests
# ask each version.
DRIVEN_BY_CLIENTS = {24, 25, 26, 27, 28, 61, 65, 66, 68, 69, 76, 77, 78, 79, 88, 89, 90, 91, 92}


@pytest.mark.skipif(not IS_HUTONG, reason="Kafka has more")
def test_nothing_is_advertised_without_a_scenario(bootstrap: str) -> None:
    with RawConnection(bootstrap) as connection:
        _, ranges = api_versions(connection.call(api_versions_request()))
    assert ranges.keys() - DRIVEN_BY_CLIENTS == SCENARIOS.keys()
