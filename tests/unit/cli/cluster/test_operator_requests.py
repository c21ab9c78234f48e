"""Operators' requests of the console: their login, refusals, and brokers that are none of ours."""

import socket
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest
from tests.support.identity_provider import AUDIENCE, ISSUER, IdentityProvider

from hutong.cli.cluster.operator_requests import ClientOperatorRequests
from hutong.cluster.controller.commands import ShowStatus, encode_command
from hutong.foundation.errors import PeerError, Refused
from hutong.testing import EmbeddedNode
from hutong.wire.kafka.apis.k18_api_versions import ApiVersionsResponse
from hutong.wire.kafka.apis.k10000_cluster_command import ClusterCommandRequest
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.error_codes import ErrorCode

SECURED = {
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "security.authorize": "true",
    "security.super_users": "User:ann",
}
STATUS = ClusterCommandRequest(encode_command(ShowStatus()))


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedNode]:
    with EmbeddedNode(settings=SECURED, users={"ann": "secret-of-ann", "bob": "secret-of-bob"}) as node:
        yield node


def properties(node: EmbeddedNode, user: str, password: str = "", mechanism: str = "SCRAM-SHA-512") -> dict[str, Any]:
    return {
        "bootstrap.servers": node.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password or f"secret-of-{user}",
        "error_cb": print,
    }


def refused(asked: dict[str, Any]) -> Refused:
    with pytest.raises(Refused) as raised, ClientOperatorRequests().opened(asked) as connection:
        connection.ask(STATUS)
    return raised.value


def test_each_user_has_the_rights_of_the_brokers(secured: EmbeddedNode) -> None:
    assert refused(properties(secured, "bob")).code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert "This node is alone" in str(refused(properties(secured, "ann")))


def test_a_login_that_is_refused(secured: EmbeddedNode) -> None:
    wrong = refused(properties(secured, "ann", "wrong"))
    assert wrong.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "wrong" not in str(wrong)
    unknown = refused(properties(secured, "ann", mechanism="GSSAPI"))
    assert (unknown.code, "hutong cluster" in str(unknown)) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, True)


def test_a_session_with_tokens_logs_in_by_them() -> None:
    with IdentityProvider() as provider:
        settings = {
            **SECURED,
            "sasl.enabled_mechanisms": ["OAUTHBEARER"],
            "oauth.jwks": provider.jwks_url,
            "oauth.issuer": ISSUER,
            "oauth.audience": AUDIENCE,
        }
        with EmbeddedNode(settings=settings) as node:  # type: ignore[arg-type]
            asked = {"bootstrap.servers": node.bootstrap, "security.protocol": "SASL_PLAINTEXT"}
            for user, code in (("ann", ErrorCode.INVALID_REQUEST), ("carl", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)):
                token = provider.token(user)
                assert refused({**asked, "oauth_cb": lambda _, token=token: (token, 0.0)}).code == code
            old = provider.token("ann", exp=1)
            assert refused({**asked, "oauth_cb": lambda _: (old, 0.0)}).code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_node_of_hutong_is_known_by_its_answer(secured: EmbeddedNode) -> None:
    with ClientOperatorRequests().opened(properties(secured, "bob")) as connection:
        assert connection.asks_hutong() is True


def answering(listener: socket.socket, second: bytes | None) -> None:
    """Give the versions, then close the connection, or say something first."""
    connection, _ = listener.accept()
    with connection:
        connection.recv(65_536)
        body = b"".join(codecs.encode_response(ApiVersionsResponse(), 0))
        connection.sendall((len(body) + 4).to_bytes(4, "big") + bytes(4) + body)
        connection.recv(65_536)
        if second is not None:
            connection.sendall(second)


@pytest.mark.parametrize("second", [None, b"\x00\x00\x00\x04\x7f\x7f\x7f\x7f", b"\xff\xff\xff\xff"])
def test_other_brokers_close_or_say_nonsense(second: bytes | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=answering, args=(listener, second))
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with ClientOperatorRequests().opened({"bootstrap.servers": address}) as connection:
            assert connection.asks_hutong() is False
        thread.join()


def test_nobody_there_is_no_kind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    opened = ClientOperatorRequests().opened({"bootstrap.servers": address})
    with pytest.raises(PeerError), opened as connection:
        connection.asks_hutong()
