"""Who has no right to come in, or to do what is asked, is told so in the client's own words.

The words are what the clients say of Apache Kafka (TEST_BROKER runs these tests against it), where OpenSSL's alerts
have other names than Java's: it says `expired` and `unknown CA` where Java says that it does not know.
"""

import pathlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

import pytest
from _pytest.mark.structures import ParameterSet
from tests.compat.secured.columns import FILLS, GO, MARKS
from tests.compat.secured.conftest import GetDriver
from tests.compat.secured.doors import Secured
from tests.compat.secured.jobs import CREATE, KNOCK, READ, WRITE, Job
from tests.compat.secured.rules import OPEN, PLAIN, SCRAM_512

pytestmark = MARKS


@dataclass(frozen=True, slots=True)
class Refusal:
    """Somebody who comes, the row it fills, and what each client then says; a client that is not named is not asked."""

    row: str
    job: Callable[[Secured], Job]
    words: dict[str, str]


_WRONG: Final = {
    "confluent-kafka": r"_AUTHENTICATION: .*SASL authentication error: Authentication failed",
    "aiokafka": r"\[Error 58\] SaslAuthenticationFailed",
    "kafka-python": r"SaslAuthenticationFailedError",
    "kafkajs": r"KafkaJSSASLAuthenticationError .*Authentication failed",
    "franz-go": r"SASL_AUTHENTICATION_FAILED",
    "sarama": r"SASL Authentication failed: Authentication failed",
    "Java 4.x": r"SaslAuthenticationException: Authentication failed",
    "kcat": r"SASL authentication error: Authentication failed",
    "Kafka's tools": r"Authentication failed",
}


def _alert(meant: str) -> dict[str, str]:
    """The words of clients that get one of these alerts, as OpenSSL and Java name them."""
    openssl, java, go, node = meant.split(" / ")
    return {
        "confluent-kafka": f"_TRANSPORT: .*alert ({openssl})",
        "aiokafka": r"KafkaConnectionError: Connection at \S+ closed",  # asyncio keeps the alert to itself
        "kafka-python": f"alert ({openssl})",
        "kafkajs": f"KafkaJSConnectionError .*({node})",
        "franz-go": f"remote error: tls: ({go})",
        "sarama": f"remote error: tls: ({go})",
        "Java 4.x": f"SslAuthenticationException.*Received fatal alert: ({java})",
        "kcat": f"alert ({openssl})",
        "Kafka's tools": r"Failed to process post-handshake messages|SSL handshake failed",
    }


_NO_CERTIFICATE: Final = _alert(
    "bad certificate|certificate required / bad_certificate|certificate_required / bad certificate|certificate required"
    " / BAD_CERTIFICATE|CERTIFICATE_REQUIRED"
)
_STALE: Final = _alert(
    "certificate unknown|certificate expired / certificate_unknown|certificate_expired"
    " / unknown certificate|expired certificate / CERTIFICATE_UNKNOWN|CERTIFICATE_EXPIRED"
)
# Kafka names the authorities that it believes, and many clients then do not show a certificate of another.
_STRANGER: Final = _alert(
    "bad certificate|certificate unknown|unknown ca / bad_certificate|certificate_unknown|unknown_ca"
    " / bad certificate|unknown certificate|unknown certificate authority"
    " / BAD_CERTIFICATE|CERTIFICATE_UNKNOWN|UNKNOWN_CA"
)
_STALE_SERVER: Final = {
    "confluent-kafka": r"(_SSL|_TRANSPORT): .*certificate verify failed",
    "aiokafka": r"CERTIFICATE_VERIFY_FAILED.*certificate has expired",
    "kafka-python": r"CERTIFICATE_VERIFY_FAILED.*certificate has expired",
    "kafkajs": r"CERT_HAS_EXPIRED",
    "franz-go": r"failed to verify certificate: x509: certificate has expired",
    "sarama": r"failed to verify certificate: x509: certificate has expired",
    "Java 4.x": r"SslAuthenticationException: SSL handshake failed.*validity check failed",
    "kcat": r"certificate verify failed",
    "Kafka's tools": r"SSL handshake failed",
}
_STRANGE_SERVER: Final = {
    "confluent-kafka": r"(_SSL|_TRANSPORT): .*certificate verify failed",
    "aiokafka": r"CERTIFICATE_VERIFY_FAILED.*(unable to get local issuer|self-signed certificate)",
    "kafka-python": r"CERTIFICATE_VERIFY_FAILED.*(unable to get local issuer|self-signed certificate)",
    "kafkajs": r"UNABLE_TO_VERIFY_LEAF_SIGNATURE|SELF_SIGNED_CERT_IN_CHAIN",
    "franz-go": r"certificate signed by unknown authority",
    "sarama": r"certificate signed by unknown authority",
    "Java 4.x": r"SslAuthenticationException: SSL handshake failed.*PKIX path building failed",
    "kcat": r"certificate verify failed",
    "Kafka's tools": r"SSL handshake failed",
}
_NO_TOPIC: Final = {
    "confluent-kafka": r"TOPIC_AUTHORIZATION_FAILED",
    "aiokafka": r"TopicAuthorizationFailedError",
    "kafka-python": r"TopicAuthorizationFailedError",
    "kafkajs": r"TOPIC_AUTHORIZATION_FAILED",
    "franz-go": r"TOPIC_AUTHORIZATION_FAILED",
    "sarama": r"The client is not authorized to access this topic",
    "Java 4.x": r"TopicAuthorizationException",
    "Kafka's tools": r"[Aa]uthorization failed",
    "kcat": r"Topic authorization failed",
}
_NO_GROUP: Final = {
    "confluent-kafka": r"GROUP_AUTHORIZATION_FAILED",
    "aiokafka": r"GroupAuthorizationFailedError",
    "kafka-python": r"GroupAuthorizationFailedError",
    "kafkajs": r"Failed to find group coordinator",  # it hides the reason, which it is told
    "franz-go": r"GROUP_AUTHORIZATION_FAILED",
    "sarama": r"The client is not authorized to access this group",
    "Java 4.x": r"GroupAuthorizationException",
    "kcat": r"Group authorization failed",
}


_NOT_ENABLED: Final = {
    "confluent-kafka": r"_AUTHENTICATION: .*Unsupported SASL mechanism: broker's supported mechanisms: SCRAM-SHA-512",
    "aiokafka": r"UnsupportedSaslMechanismError",
    "kafka-python": r"SaslHandshake failed: UnsupportedSaslMechanismError",
    "kafkajs": r"UNSUPPORTED_SASL_MECHANISM",
    "franz-go": r"UNSUPPORTED_SASL_MECHANISM",
    "Java 4.x": r"UnsupportedSaslMechanismException: .*not enabled in the server, .* \[SCRAM-SHA-512\]",
}
_NO_SASL_THERE: Final = {
    "confluent-kafka": r"_AUTHENTICATION: .*Request not valid in current SASL state",
    "aiokafka": r"IllegalSaslStateError",
    "kafka-python": r"SaslHandshake failed: IllegalSaslStateError",
    "kafkajs": r"ILLEGAL_SASL_STATE",
    "franz-go": r"ILLEGAL_SASL_STATE",
    "Java 4.x": r"IllegalSaslStateException: Unexpected handshake request",
}


def _without(words: dict[str, str], *clients: str) -> dict[str, str]:
    return {client: said for client, said in words.items() if client not in clients}


def _of_bob(action: str, name: str, words: dict[str, str]) -> Refusal:
    return Refusal("acl-errors", lambda secured: Job(secured.sasl(PLAIN, "bob"), action, name), words)


REFUSALS: Final = {
    "wrong-password-plain": Refusal("sasl-plain", lambda it: Job(it.wrong(PLAIN), KNOCK), _WRONG),
    "wrong-password-scram": Refusal("sasl-scram", lambda it: Job(it.wrong(SCRAM_512), KNOCK), _without(_WRONG, "kcat")),
    "mechanism-not-enabled": Refusal("sasl-plain", lambda it: Job(it.sasl(PLAIN, door="narrow"), KNOCK), _NOT_ENABLED),
    "no-sasl-there": Refusal(
        "sasl-plain",
        lambda it: Job(replace(it.sasl(PLAIN), bootstrap=it.addresses["tls"]), KNOCK),
        _NO_SASL_THERE,
    ),
    "no-certificate": Refusal("mtls", lambda it: Job(it.tls("strict"), KNOCK), _NO_CERTIFICATE),
    "stale-certificate": Refusal("mtls", lambda it: Job(it.tls("strict", it.certificates.stale_client), KNOCK), _STALE),
    "stranger": Refusal("mtls", lambda it: Job(it.tls("strict", it.certificates.stranger), KNOCK), _STRANGER),
    "stale-server": Refusal("tls", lambda it: Job(it.tls("stale"), KNOCK), _STALE_SERVER),
    "strange-server": Refusal(
        "tls",
        lambda it: Job(replace(it.tls(), authority=it.certificates.strange_authority), KNOCK),
        _STRANGE_SERVER,
    ),
    "write": Refusal(
        "acl-errors", lambda it: Job(it.sasl(PLAIN, "bob"), WRITE, OPEN), _without(_NO_TOPIC, "Kafka's tools")
    ),
    "read": Refusal("acl-errors", lambda it: Job(it.sasl(PLAIN, "bob"), READ, OPEN), _NO_GROUP),
    "create": Refusal(
        "acl-errors", lambda it: Job(it.sasl(PLAIN, "bob"), CREATE, "work-bobs"), _without(_NO_TOPIC, "kcat")
    ),
}
# What is over at once; `make compat` runs all.
_QUICK_CLIENTS: Final = ("confluent-kafka", "aiokafka", "kafkajs", "franz-go", "Java 4.x")
_LATER: Final = ("wrong-password-plain", "mechanism-not-enabled", "no-sasl-there")
QUICK: Final = {
    *((client, situation) for client in _QUICK_CLIENTS for situation in REFUSALS if situation not in _LATER),
    *(("kafka-python", situation) for situation in ("write", "read", "create")),
}


def _cases(clients: Iterable[str]) -> Iterable[ParameterSet]:
    for client in clients:
        for situation, refusal in REFUSALS.items():
            if client in refusal.words:
                marks = [FILLS[client](refusal.row)]
                if (client, situation) not in QUICK:
                    marks.append(pytest.mark.thorough)
                yield pytest.param(client, situation, id=f"{client}-{situation}", marks=marks)


@pytest.mark.parametrize(("client", "situation"), list(_cases(client for client in FILLS if client not in GO)))
def test_refusal(secured: Secured, driver: GetDriver, client: str, situation: str) -> None:
    _is_told(secured, driver, client, situation)


@pytest.mark.parametrize(("client", "situation"), list(_cases(GO)))
def test_refusal_in_go(
    go_clients: pathlib.Path, secured: Secured, driver: GetDriver, client: str, situation: str
) -> None:
    _is_told(secured, driver, client, situation)


def _is_told(secured: Secured, driver: GetDriver, client: str, situation: str) -> None:
    refusal = REFUSALS[situation]
    error = driver(client)(refusal.job(secured))
    assert re.search(refusal.words[client], error), error
