"""Settings of logins at a provider: those that cannot be used are refused before anything listens."""

from typing import Any

import pytest

from hutong.foundation.errors import UsageError
from hutong.testing import EmbeddedNode

RIGHT: dict[str, Any] = {
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "sasl.enabled_mechanisms": ["OAUTHBEARER"],
    "oauth.jwks": "http://127.0.0.1:1/keys",
    "console.listen": "127.0.0.1:0",
    "console.oidc_issuer": "https://provider.example",
    "console.oidc_client_id": "console",
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"console.oidc_issuer": "http://provider.example"}, "oidc_issuer is no https"),
        ({"console.oidc_issuer": "provider.example"}, "oidc_issuer is no https"),
        ({"console.oidc_issuer": "https://provider.example?x"}, "oidc_issuer is no https"),
        ({"console.oidc_issuer": "https://user@provider.example"}, "oidc_issuer is no https"),
        ({"console.oidc_client_id": ""}, "needs console.oidc_client_id"),
        ({"console.oidc_scope": ["kafka"]}, "lacks openid"),
        ({"console.oidc_redirect_url": "http://console.example"}, "oidc_redirect_url is no https"),
        ({"console.oidc_ca": "/nothing"}, "oidc_ca names /nothing"),
        ({"console.oidc_parameters": ["state=x"]}, "oidc_parameters has 'state'"),
        ({"console.oidc_parameters": ["audience"]}, "oidc_parameters has 'audience'"),
        ({"sasl.enabled_mechanisms": ["PLAIN"]}, "does not offer"),
        ({"kafka.protocol": "PLAINTEXT"}, "needs brokers that ask for a login"),
    ],
)
def test_settings_that_cannot_be_used(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said), EmbeddedNode(settings={**RIGHT, **change}):
        pass


def test_the_secret_is_shown_to_nobody() -> None:
    with EmbeddedNode(settings={**RIGHT, "console.oidc_client_secret": "of-the-console"}) as node:
        assert node.console_url
        from hutong.server.configuration.loader import shown_value
        from hutong.server.configuration.settings import all_settings

        (secret,) = (each for each in all_settings() if each.name == "console.oidc_client_secret")
        assert "of-the-console" not in str(shown_value(secret, "of-the-console"))
