"""Commands for Kafka keep the newest refusal of a login for the whole process: here each test has its own."""

import pytest

from hutong.cli.kafka import client


@pytest.fixture(autouse=True)
def no_refusal_of_another_test(monkeypatch: pytest.MonkeyPatch) -> None:
    # Also late reports: a client that another test has left behind still calls the object that it was given.
    monkeypatch.setattr(client, "_refusals", client._Refusals())
