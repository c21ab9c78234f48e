"""Read-only consoles, and the places where a console may listen."""

from pathlib import Path

import pytest
from tests.unit.console.scene import ConsoleClient, node_with_console

from hutong.console.guard import cookie_of
from hutong.foundation.errors import UsageError


def test_the_token_is_one_cookie_among_others() -> None:
    assert cookie_of("a=b; hutong_console=x_y-z; c=d") == "x_y-z"
    assert cookie_of("") is None
    assert cookie_of("other=1") is None


def test_a_read_only_console_says_so() -> None:
    with node_with_console({"console.read_only": "true"}) as node:
        assert ConsoleClient(node).begin().ask("GET", "/api/session").value["read_only"] is True


def test_a_console_of_a_network_needs_tls_and_a_login(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="open to the network without TLS"),
        node_with_console({"console.listen": "0.0.0.0:0"}),
    ):
        pass
    with (
        pytest.raises(UsageError, match="would let in everybody"),
        node_with_console({"console.listen": "0.0.0.0:0", "security.allow_plain": "console"}),
    ):
        pass
