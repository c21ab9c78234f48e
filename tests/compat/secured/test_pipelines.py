"""The pipelines' own client at each door: what lets it in, and what it says when it stays outside.

Nobody is asked twice for what will not change: each refusal comes with the first attempt.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from bench.raw_client import create_topic
from tests.compat.secured.access import Access
from tests.compat.secured.doors import Secured
from tests.compat.secured.rules import MECHANISMS, OPEN, PLAIN, SCRAM_256, SCRAM_512

from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import Refused, UsageError
from hutong.pipelines.client.cluster import EARLIEST, LATEST, Cluster, TopicPartition
from hutong.pipelines.client.opening import connect
from hutong.pipelines.errors import AccessDenied, Unavailable
from hutong.pipelines.option_values import cluster_of


def options_of(access: Access) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in access.java().items()}


class Once:
    """Fails a test in which something is tried again."""

    def __call__(self, seconds: float) -> None:
        raise AssertionError(f"it is tried again after {seconds} s")


@pytest.fixture
def clusters() -> Iterator[list[Cluster]]:
    made: list[Cluster] = []
    yield made
    for cluster in made:
        cluster.close()


def reached(clusters: list[Cluster], options: Mapping[str, str]) -> Cluster:
    clusters.append(Cluster(cluster_of(options), connect, SystemClock(), Once()))
    return clusters[-1]


def count(cluster: Cluster, topic: str) -> int:
    """The number of records in partition 0."""
    at = TopicPartition(topic, 0)
    return cluster.offsets({at: LATEST})[at].offset - cluster.offsets({at: EARLIEST})[at].offset


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("door", ["sasl", "bare"])
def test_a_password_lets_in(secured: Secured, clusters: list[Cluster], mechanism: str, door: str) -> None:
    options = options_of(secured.sasl(mechanism, "bob", door))
    assert count(reached(clusters, options), OPEN) == 1


def test_a_certificate_lets_in(secured: Secured, clusters: list[Cluster], fresh: str) -> None:
    create_topic(secured.plain_beside("strict"), fresh, records=3)
    options = options_of(secured.tls("strict", secured.certificates.alice))
    assert count(reached(clusters, options), fresh) == 3


def test_certificates_may_be_given_as_text(secured: Secured, clusters: list[Cluster], fresh: str) -> None:
    create_topic(secured.plain_beside("strict"), fresh, records=2)
    alice = secured.certificates.alice
    options = options_of(secured.tls("strict")) | {
        "kafka.ssl.truststore.certificates": secured.certificates.authority.read_text(),
        "kafka.ssl.keystore.certificate.chain": alice.certificate.read_text(),
        "kafka.ssl.keystore.key": alice.key.read_text(),
    }
    del options["kafka.ssl.truststore.location"]
    assert count(reached(clusters, options), fresh) == 2


def test_a_login_that_runs_out_is_renewed(secured: Secured, clusters: list[Cluster]) -> None:
    cluster = reached(clusters, options_of(secured.sasl(SCRAM_512, "bob", "short")))
    first = cluster.any_connection()
    assert first._clock is not None, "the broker told how long the session lasts"
    assert cluster.any_connection() is first
    first._ends_ms = first._clock.monotonic_ms()
    assert count(cluster, OPEN) == 1
    assert cluster.any_connection() is not first


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_told_once(secured: Secured, clusters: list[Cluster], mechanism: str) -> None:
    with pytest.raises(AccessDenied, match=f"did not let in user 'alice' by {mechanism}: check the name") as told:
        reached(clusters, options_of(secured.wrong(mechanism))).topics([OPEN])
    assert "not alice's" not in str(told.value)


def test_a_mechanism_that_is_not_offered(secured: Secured, clusters: list[Cluster]) -> None:
    with pytest.raises(AccessDenied, match=rf"does not take {SCRAM_256}: .* \({SCRAM_512}\)"):
        reached(clusters, options_of(secured.sasl(SCRAM_256, door="narrow"))).topics([OPEN])


def test_an_unknown_authority(secured: Secured, clusters: list[Cluster]) -> None:
    access = replace(secured.tls(), authority=secured.certificates.strange_authority)
    with pytest.raises(AccessDenied, match=r"is not trusted: its certificate is signed by no authority in .*strange"):
        reached(clusters, options_of(access)).topics([OPEN])


def test_no_authority_given_means_those_of_the_machine(secured: Secured, clusters: list[Cluster]) -> None:
    options = {"kafka.bootstrap.servers": secured.addresses["tls"], "kafka.security.protocol": "SSL"}
    with pytest.raises(AccessDenied, match=r"that we trust: set kafka.ssl.truststore.location"):
        reached(clusters, options).topics([OPEN])


def test_an_expired_certificate_of_the_broker(secured: Secured, clusters: list[Cluster]) -> None:
    with pytest.raises(AccessDenied, match="its certificate has expired"):
        reached(clusters, options_of(secured.tls("stale"))).topics([OPEN])


@pytest.mark.parametrize(
    ("who", "why"),
    [
        ("", "asks for a certificate|wants one|wants a certificate"),
        ("stale_client", "certificate"),
        ("stranger", "certificate"),
    ],
)
def test_a_client_that_is_not_wanted(secured: Secured, clusters: list[Cluster], who: str, why: str) -> None:
    identity = getattr(secured.certificates, who) if who else None
    with pytest.raises(AccessDenied, match=why):
        reached(clusters, options_of(secured.tls("strict", identity))).topics([OPEN])


def test_a_topic_that_one_may_not_read(secured: Secured, clusters: list[Cluster]) -> None:
    create_topic(secured.addresses["plain"], "payroll", records=0)
    with pytest.raises(Refused, match=r"topic payroll .*TOPIC_AUTHORIZATION_FAILED, our user has no right to it"):
        reached(clusters, options_of(secured.sasl(PLAIN, "bob"))).topics(["payroll"])


def test_a_listener_of_another_protocol(secured: Secured, clusters: list[Cluster]) -> None:
    plain = secured.sasl(PLAIN, "bob", "bare")
    with pytest.raises(AccessDenied, match="asks for no password"):
        reached(clusters, options_of(replace(plain, bootstrap=secured.addresses["plain"]))).topics([OPEN])
    at_once = {"kafka.default.api.timeout.ms": "1"}
    told = r"if that port wants TLS, set kafka.security.protocol|speaks TLS alone: set kafka.security.protocol"
    with pytest.raises((Unavailable, AccessDenied), match=told):  # Kafka says why by a TLS alert, our node just closes
        reached(clusters, {"kafka.bootstrap.servers": secured.addresses["tls"]} | at_once).topics([OPEN])
    access = replace(secured.tls(), bootstrap=secured.addresses["plain"])
    with pytest.raises((Unavailable, AccessDenied), match="speak TLS"):
        reached(clusters, options_of(access) | at_once).topics([OPEN])


def test_files_that_cannot_be_used(secured: Secured, clusters: list[Cluster], tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.pem"
    nothing.write_text("-----BEGIN NOTHING-----\n")
    with pytest.raises(UsageError, match=f"the trusted certificates in {nothing} cannot be used"):
        reached(clusters, options_of(replace(secured.tls(), authority=nothing))).topics([OPEN])
