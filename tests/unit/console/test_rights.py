"""Rights that the brokers do not tell: the pages say so, and what to do."""

import pytest
from tests.unit.console.scene import ConsoleClient

from hutong.console import rights


@pytest.mark.parametrize("path", ["/api/security/users", "/api/settings/node"])
def test_brokers_that_do_not_tell_in_time(client: ConsoleClient, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(rights, "CALL_S_MAX", 0.000_1)
    answer = client.ask("GET", path)
    assert (answer.status, answer.value["error"]["message"]) == (503, rights.NOT_TOLD)
    monkeypatch.undo()
    assert client.ask("GET", path).status == 200


def test_groups_are_listed_all_the_same(client: ConsoleClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "CALL_S_MAX", 0.000_1)
    told = client.value("GET", "/api/groups")
    assert (told["groups"], told["problems"]) == ([], [rights.NOT_TOLD])


def test_what_to_do_is_named() -> None:
    assert rights.NOT_TOLD.startswith("The brokers have not said within 15 s what your user may do")
    assert "hutong cluster status" in rights.NOT_TOLD
