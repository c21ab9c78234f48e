"""What single listeners ask of clients, and what is wrong with such settings."""

import pytest

from hutong.foundation.errors import UsageError
from hutong.reactor.tls.server_contexts import ClientAuth
from hutong.server.configuration.sections.network import KafkaSettings
from hutong.server.configuration.sections.security import SaslSettings, TlsSettings
from hutong.server.listeners.plans import ListenerPlan, planned
from hutong.server.listeners.rules import client_auth_of, mechanisms_of, shown_rules

SCRAM = "SCRAM-SHA-512"


def plans() -> list[ListenerPlan]:
    return planned(
        KafkaSettings(
            listeners=("PLAINTEXT://h:1", "SSL://h:2", "MUTUAL://h:3", "SASL_SSL://h:4", "INSIDE://h:5"),
            listener_protocols=("MUTUAL:SSL", "INSIDE:SASL_PLAINTEXT"),
        )
    )


NONE, REQUESTED, REQUIRED = ClientAuth.NONE, ClientAuth.REQUESTED, ClientAuth.REQUIRED


@pytest.mark.parametrize(
    ("of_node", "of_listeners", "expected"),
    [
        ("none", (), (NONE, NONE, NONE)),
        ("required", (), (REQUIRED, REQUIRED, NONE)),
        ("none", ("mutual:required",), (NONE, REQUIRED, NONE)),
        ("required", ("SSL:none", "MUTUAL:requested"), (NONE, REQUESTED, NONE)),
        ("none", ("SASL_SSL:required",), (NONE, NONE, REQUIRED)),
    ],
)
def test_certificates_are_asked_for_by_listener(
    of_node: str, of_listeners: tuple[str, ...], expected: tuple[ClientAuth, ...]
) -> None:
    asked = client_auth_of(TlsSettings(client_auth=of_node, listener_client_auth=of_listeners), plans())
    assert asked == dict(zip(("SSL", "MUTUAL", "SASL_SSL"), expected, strict=True))


def test_mechanisms_are_offered_by_listener() -> None:
    settings = SaslSettings(enabled_mechanisms=(SCRAM,), listener_enabled_mechanisms=("inside:PLAIN, SCRAM-SHA-256",))
    assert mechanisms_of(settings, plans()) == {"SASL_SSL": (SCRAM,), "INSIDE": ("PLAIN", "SCRAM-SHA-256")}


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (("required",), r"has 'required'; write LISTENER:VALUE\."),
        ((":required",), r"has ':required'; write LISTENER:VALUE\."),
        (("OUTSIDE:required",), r"names OUTSIDE, which is no listener; there are PLAINTEXT, SSL, MUTUAL"),
        (("PLAINTEXT:required",), r"names PLAINTEXT, a listener without TLS; leave it out\."),
        (("SSL:none", "ssl:required"), r"names SSL twice\."),
        (("SSL:want",), r"says 'want' of SSL; choose none or requested or required\."),
    ],
)
def test_wrong_rules_for_certificates_are_told(texts: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(UsageError, match=r"^tls\.listener_client_auth " + sentence) as caught:
        client_auth_of(TlsSettings(listener_client_auth=texts), plans())
    assert caught.value.exit_code == 78


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            SaslSettings(enabled_mechanisms=("GSSAPI",)),
            r"sasl\.enabled_mechanisms has 'GSSAPI'; choose from OAUTHBEARER, ",
        ),
        (
            SaslSettings(listener_enabled_mechanisms=("SASL_SSL:OAUTH",)),
            r"has 'OAUTH'; choose from OAUTHBEARER, ",
        ),
        (SaslSettings(listener_enabled_mechanisms=("SASL_SSL:",)), r"gives SASL_SSL no mechanism; name one of PLAIN"),
        (SaslSettings(listener_enabled_mechanisms=("SSL:PLAIN",)), r"names SSL, a listener without SASL"),
    ],
)
def test_wrong_mechanisms_are_told(settings: SaslSettings, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        mechanisms_of(settings, plans())


def test_rules_are_shown_by_kafka_s_names() -> None:
    tls = TlsSettings(listener_client_auth=("MUTUAL:required",))
    sasl = SaslSettings(listener_enabled_mechanisms=("INSIDE:PLAIN,SCRAM-SHA-256",))
    assert shown_rules(tls, sasl) == {
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.inside.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    }
