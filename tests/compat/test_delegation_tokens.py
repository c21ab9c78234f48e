"""Delegation tokens by Kafka's own tools: made, shown, renewed, used by Java's clients, and ended."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.support.kafka_tools import Tools
from tests.support.node import IS_HUTONG

from hutong.testing import EmbeddedNode

pytestmark = [
    pytest.mark.compat,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not IS_HUTONG, reason="starts a node with its own settings"),
]
TOOL_S: Final = 40.0
SETTINGS: Final = {
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "security.authorize": "true",
    "security.super_users": "User:alice",
    "delegation_token.secret_key": "of the cluster",
}


class Commands:
    """Kafka's tools as one client after the other."""

    def __init__(self, tools: Tools, bootstrap: str, folder: Path) -> None:
        self._tools, self._bootstrap, self._folder = tools, bootstrap, folder

    def run(self, tool: str, *words: str, by: str, given: str = "") -> tuple[str, str]:
        """Exit status, and all that was printed. `by` is what follows the module in `sasl.jaas.config`."""
        file = self._folder / "client.properties"
        file.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
            f"sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required {by};\n"
            "default.api.timeout.ms=10000\nrequest.timeout.ms=10000\n"
        )
        known = ["--bootstrap-server", self._bootstrap, "--command-config", str(file)]
        status, out, err = self._tools.run(tool, [*words, *known], given, TOOL_S)
        return status, out + err


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    with Tools() as tools, EmbeddedNode(settings=SETTINGS, users={"alice": "s3cret", "bob": "s3cret"}) as node:
        yield Commands(tools, node.bootstrap, tmp_path)


def of_user(name: str) -> str:
    return f'username="{name}" password="s3cret"'


def test_a_token_from_its_first_day_to_its_last(commands: Commands) -> None:
    status, told = commands.run(
        "delegation-tokens",
        *("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"),
        by=of_user("alice"),
    )
    assert status == "0", told
    found = re.search(r"^(\S+)\s+(\S+==)\s+User:alice\s+User:alice\s+\[?User:bob", told, re.MULTILINE)
    assert found, told
    token_id, hmac = found[1], found[2]
    by_token = f'username="{token_id}" password="{hmac}" tokenauth="true"'

    # Without an owner the tool asks for none, and Kafka answers so, too.
    _, told = commands.run("delegation-tokens", "--describe", "--owner-principal", "User:alice", by=of_user("bob"))
    assert token_id in told
    status, told = commands.run("topics", "--create", "--topic", "orders", by=by_token)
    assert status == "0", told
    status, told = commands.run("console-producer", "--topic", "orders", by=by_token, given="a\nb\n")
    assert status == "0", told
    _, told = commands.run("get-offsets", "--topic", "orders", by=of_user("alice"))
    assert "orders:0:2" in told

    _, told = commands.run("delegation-tokens", "--describe", by=by_token)
    assert "DelegationTokenRequestNotAllowed" in told or "not allowed" in told
    renewal = ("--renew", "--hmac", hmac, "--renew-time-period", "1000000")
    status, told = commands.run("delegation-tokens", *renewal, by=of_user("bob"))
    assert status == "0", told
    assert "Completed renew operation" in told
    expiry = ("--expire", "--hmac", hmac, "--expiry-time-period", "-1")
    status, told = commands.run("delegation-tokens", *expiry, by=of_user("alice"))
    assert status == "0", told
    _, told = commands.run("topics", "--list", by=by_token)
    assert "Authentication failed" in told
    _, told = commands.run("delegation-tokens", *renewal, by=of_user("bob"))
    assert "DelegationTokenNotFound" in told or "not found" in told.lower()
