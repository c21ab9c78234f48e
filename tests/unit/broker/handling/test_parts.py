"""A broker has every part that some handler declares. The type checker proves it; this test tells which one lacks."""

from dataclasses import fields

import pytest

from hutong.broker.broker import Broker
from hutong.broker.configs.parts import AdminParts
from hutong.broker.coordinators.parts import GroupParts, TransactionParts
from hutong.broker.fetch.parts import FetchParts
from hutong.broker.produce.parts import ProduceParts
from hutong.broker.share.parts import ShareParts
from hutong.broker.topics.parts import TopicParts

WINGS = (AdminParts, FetchParts, GroupParts, ProduceParts, ShareParts, TopicParts, TransactionParts)


def parts_of(broker: Broker) -> tuple[AdminParts, FetchParts, ProduceParts, ShareParts, TopicParts, TransactionParts]:
    """Never called: for the type checker."""
    return broker, broker, broker, broker, broker, broker


@pytest.mark.parametrize("wing", WINGS)
def test_a_broker_has_what_a_wing_declares(wing: type) -> None:
    declared = {name for base in wing.__mro__ for name in vars(base).get("__annotations__", ())}
    assert declared
    assert declared <= {field.name for field in fields(Broker)}
