"""The listener that the HTTP gateway asks, and how it logs in there."""

from dataclasses import replace

import pytest

from hutong.broker.handling.listeners import SecurityProtocol
from hutong.foundation.errors import UsageError
from hutong.server.configuration.sections.security import SaslSettings
from hutong.server.configuration.settings import Address, Settings
from hutong.server.http.brokers import client_properties
from hutong.server.listeners.plans import OpenListener


def listener(protocol: SecurityProtocol, port: int) -> OpenListener:
    return OpenListener(protocol, protocol, Address("127.0.0.1", port), Address("node.example", port))


PLAIN = listener(SecurityProtocol.PLAINTEXT, 1)
SASL = listener(SecurityProtocol.SASL_PLAINTEXT, 2)
TLS = listener(SecurityProtocol.SSL, 3)


def settings(*mechanisms: str) -> Settings:
    return replace(Settings(), sasl=SaslSettings(enabled_mechanisms=mechanisms))


def test_users_are_asked_for_where_there_are_some() -> None:
    found = client_properties("http", "", {}, [PLAIN, SASL], settings("OAUTHBEARER", "SCRAM-SHA-256", "PLAIN"))
    assert (found["bootstrap.servers"], found["security.protocol"]) == ("127.0.0.1:2", "SASL_PLAINTEXT")
    assert found["sasl.mechanism"] == "SCRAM-SHA-256"
    assert "sasl.mechanism" not in client_properties("http", "", {}, [TLS, PLAIN], settings())


def test_tls_needs_properties_and_reaches_the_name_of_the_certificate() -> None:
    with pytest.raises(UsageError, match=r"http\.client_config"):
        client_properties("http", "", {}, [TLS], settings())
    named = {"security.protocol": "ssl", "ssl.ca.location": "/ca.pem"}
    found = client_properties("http", "", named, [PLAIN, TLS], settings())
    assert (found["bootstrap.servers"], found["ssl.ca.location"]) == ("node.example:3", "/ca.pem")


def test_other_brokers_are_asked_as_their_properties_say() -> None:
    found = client_properties("http", "kafka://a:1,b:2", {"sasl.mechanism": "PLAIN"}, [PLAIN], settings())
    assert (found["bootstrap.servers"], found["sasl.mechanism"]) == ("a:1,b:2", "PLAIN")


def test_tokens_alone_are_no_passwords() -> None:
    with pytest.raises(UsageError, match="logs users in with SCRAM-SHA-512 or"):
        client_properties("http", "", {}, [SASL], settings("OAUTHBEARER"))
