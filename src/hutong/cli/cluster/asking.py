"""Operators' commands, sent to any node of a cluster of Hutong, which brings them to the controller.

Strategy: the API is Hutong's own, so confluent-kafka cannot send it; the client of the pipelines can. It reads the same
properties of `--client-config`. While the cluster has no controller it asks again; every other refusal is the answer.

Knows nothing of what commands do.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hutong.cli.kafka import client, client_config
from hutong.cluster.controller.commands import CommandReply, ControllerCommand, decode_reply, encode_command
from hutong.foundation.errors import ExitCode, ProtocolError, Refused, UsageError
from hutong.pipelines.client.cluster import BrokerAddress, Cluster, ClusterSettings
from hutong.pipelines.client.clusters import open_cluster
from hutong.pipelines.client.security import OAUTHBEARER, PLAIN, SaslLogin, Security, Tls
from hutong.pipelines.errors import AccessDenied, Unavailable
from hutong.wire.kafka.apis.k10000_cluster_command import ClusterCommandRequest, ClusterCommandResponse
from hutong.wire.kafka.error_codes import ErrorCode

CONTROLLER_MS_MAX: Final = 15_000  # for an election
REQUEST_MS_MAX: Final = 40_000  # longer than a node waits for the controller
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512")
_EXIT_CODES: Final[Mapping[int, ExitCode]] = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ExitCode.NOPERM,
    ErrorCode.NOT_CONTROLLER: ExitCode.TEMPFAIL,
    ErrorCode.REQUEST_TIMED_OUT: ExitCode.TEMPFAIL,
    ErrorCode.BROKER_ID_NOT_REGISTERED: ExitCode.NOINPUT,
    ErrorCode.RESOURCE_NOT_FOUND: ExitCode.NOINPUT,
}


class ClusterAccess:
    """A way to any node of a cluster, kept until `close`."""

    def __init__(self, bootstrap: str) -> None:
        """Raises UsageError where nobody answers, or the properties of `--client-config` cannot be used."""
        client.reach(bootstrap)
        self._cluster = open_cluster_by(bootstrap, client_config.current())

    def request(self, request: Any) -> Any:
        """The response to a request of Hutong's own, in its version 0. Raises UsageError where there is none."""

        def attempt() -> Any:
            response = self._cluster.any_connection().request(request, 0)
            if response.error_code == ErrorCode.NOT_CONTROLLER:
                raise Refused(response.error_code, response.error_message or "")
            return response

        try:
            # Lost connections are tried again, too: each command asks for a state, so twice is as good as once.
            return self._cluster.retrying(attempt, CONTROLLER_MS_MAX)
        except AccessDenied:
            raise _not_let_in() from None
        except Unavailable as error:
            raise UsageError(
                f"The command got no answer ({str(error).rstrip('.')}); only nodes of Hutong take it.",
                ExitCode.UNAVAILABLE,
            ) from None
        except (Refused, ProtocolError) as error:
            raise UsageError(f"{str(error).rstrip('.')}.", ExitCode.TEMPFAIL) from None

    def request_of_each(self, request: Any) -> list[Any]:
        """The response of every broker to a request of Kafka's. Raises UsageError where one gives none."""
        cluster = self._cluster
        try:
            return [
                cluster.retrying(lambda at=address: cluster.connection_to(at).request(request), CONTROLLER_MS_MAX)  # type: ignore[misc]
                for address in cluster.brokers()
            ]
        except AccessDenied:
            raise _not_let_in() from None
        except (Unavailable, Refused, ProtocolError) as error:
            raise UsageError(f"A broker did not answer: {str(error).rstrip('.')}.", ExitCode.UNAVAILABLE) from None

    def close(self) -> None:
        self._cluster.close()


class Operator:
    """Sends commands, and gives back what the controller replies."""

    def __init__(self, bootstrap: str) -> None:
        """Raises UsageError as `ClusterAccess`."""
        self._access = ClusterAccess(bootstrap)

    def ask(self, command: ControllerCommand) -> CommandReply:
        """Raises UsageError in the place of a refusal."""
        try:
            response = self._access.request(ClusterCommandRequest(encode_command(command)))
        finally:
            self._access.close()  # the next command comes a second later, or never
        # A refusal by the controller is final: it has looked at the newest state.
        return _reply_in(response)


def _reply_in(response: ClusterCommandResponse) -> CommandReply:
    if response.error_code != ErrorCode.NONE:
        code = response.error_code
        reason = response.error_message or f"The controller refused with error {code}"
        raise UsageError(f"{reason.rstrip('.')}.", _EXIT_CODES.get(code, ExitCode.UNAVAILABLE))
    try:
        return decode_reply(bytes(response.reply))
    except ProtocolError as error:
        raise UsageError(f"The controller is of another version: {error}.", ExitCode.PROTOCOL) from None


def _not_let_in() -> UsageError:
    return UsageError(
        "The broker did not let us in; --client-config names a file with security.protocol, sasl.mechanism, "
        "sasl.username, sasl.password and ssl.ca.location.",
        ExitCode.NOPERM,
    )


def open_cluster_by(bootstrap: str, properties: Mapping[str, str], token: str | None = None) -> Cluster:
    """Open a cluster by properties of librdkafka. Connects at the first request. Raises UsageError.

    With a `token` the mechanism is OAUTHBEARER, also where the properties name another one.
    """
    addresses = []
    for text in bootstrap.split(","):
        host, _, port = text.strip().rpartition(":")
        addresses.append(BrokerAddress(host.strip("[]"), int(port)))
    # The controller may be asked by way of any node, so no other addresses are looked up.
    security = security_of(properties, token)
    return open_cluster(ClusterSettings(tuple(addresses), request_timeout_ms=REQUEST_MS_MAX, security=security))


def security_of(properties: Mapping[str, str], token: str | None = None) -> Security:
    """The security that properties of librdkafka ask for. Raises UsageError."""
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise UsageError(f"security.protocol is one of {', '.join(_PROTOCOLS)}.", ExitCode.CONFIG)
    tls = _tls(properties) if protocol.endswith("SSL") else None
    if not protocol.startswith("SASL"):
        return Security(tls)
    return Security(tls, _login(properties) if token is None else SaslLogin(OAUTHBEARER, "", token))


def _login(properties: Mapping[str, str]) -> SaslLogin:
    mechanism = (properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or PLAIN).upper()
    if mechanism not in _MECHANISMS:
        raise UsageError(f"Commands for clusters log in by {', '.join(_MECHANISMS)} alone.", ExitCode.CONFIG)
    return SaslLogin(mechanism, properties.get("sasl.username", ""), properties.get("sasl.password", ""))


def _tls(properties: Mapping[str, str]) -> Tls:
    if properties.get("enable.ssl.certificate.verification", "true").lower() != "true":
        raise UsageError("Commands for clusters always verify the broker's certificate.", ExitCode.CONFIG)
    return Tls(
        trusted_path=properties.get("ssl.ca.location", ""),
        trusted_pem=properties.get("ssl.ca.pem", ""),
        certificate_pem=_pem(properties, "ssl.certificate"),
        key_pem=_pem(properties, "ssl.key"),
        key_password=properties.get("ssl.key.password", ""),
        checks_name=properties.get("ssl.endpoint.identification.algorithm", "https").lower() != "none",
    )


def _pem(properties: Mapping[str, str], name: str) -> str:
    """A certificate or key: in the properties, or in a file that they name."""
    path = properties.get(f"{name}.location")
    if path is None:
        return properties.get(f"{name}.pem", "")
    try:
        return Path(path).expanduser().read_text()
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"Cannot read {path}, which {name}.location names.", ExitCode.NOINPUT) from None
