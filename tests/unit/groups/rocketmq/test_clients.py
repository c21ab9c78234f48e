"""Who is in which group of RocketMQ's, and who has locked which queue."""

import pytest

from hutong.foundation.errors import LimitExceeded
from hutong.groups.rocketmq.clients import CLIENT_EXPIRY_MS, GROUPS_PER_CONNECTION_MAX, RocketClients
from hutong.groups.rocketmq.queue_locks import LOCK_EXPIRY_MS, QueueLocks
from hutong.wire.rocketmq.bodies import ConsumerData, HeartbeatData, ProducerData, SubscriptionData


def heartbeat(
    client_id: str, *groups: str, topics: tuple[str, ...] = ("t",), producers: tuple[str, ...] = ()
) -> HeartbeatData:
    subscriptions = [SubscriptionData(topic) for topic in topics]
    return HeartbeatData(
        client_id,
        [ProducerData(group) for group in producers],
        [ConsumerData(group, subscriptionDataSet=subscriptions) for group in groups],
    )


def test_a_heartbeat_is_news_once() -> None:
    clients = RocketClients()
    assert clients.heartbeat(1, heartbeat("a", "g"), 0) == ["g"]
    assert clients.heartbeat(1, heartbeat("a", "g"), 30_000) == []
    assert clients.heartbeat(1, heartbeat("a", "g", topics=("t", "u")), 60_000) == ["g"]
    assert clients.heartbeat(2, heartbeat("b", "g", topics=("t", "u")), 60_000) == ["g"]
    group = clients.group("g")
    assert group is not None
    assert [*group.members] == ["a", "b"]
    assert clients.reads("g", "u")
    assert not clients.reads("g", "v")


def test_a_client_leaves_with_its_connection_unless_it_came_back_by_another() -> None:
    clients = RocketClients()
    clients.heartbeat(1, heartbeat("a", "g", producers=("p",)), 0)
    clients.heartbeat(2, heartbeat("b", "g"), 0)
    clients.heartbeat(3, heartbeat("a", "g"), 0)
    assert clients.disconnected(1) == [], "its consumer came back; its producer has left"
    assert clients.producer_connections("p") == []
    assert clients.disconnected(2) == ["g"]
    assert clients.disconnected(3) == ["g"]
    assert clients.group("g") is None
    assert clients.disconnected(3) == []


def test_a_silent_client_leaves() -> None:
    clients = RocketClients()
    clients.heartbeat(1, heartbeat("a", "g", producers=("p",)), 0)
    clients.heartbeat(2, heartbeat("b", "g"), 1_000)
    assert clients.expire(CLIENT_EXPIRY_MS) == []
    assert clients.expire(CLIENT_EXPIRY_MS + 1) == ["g"]
    assert clients.producer_connections("p") == []
    assert clients.leave("b", "g") == ["g"]
    assert clients.leave("b", "g") == []


def test_a_sender_of_half_messages_may_end_them_until_it_leaves() -> None:
    clients = RocketClients()
    clients.sends_half("p", 1, "here")
    assert clients.may_end_halves("p", 1, "here")
    assert clients.may_end_halves("p", 2, "here"), "another connection of the same program"
    assert not clients.may_end_halves("p", 2, "there")
    assert not clients.may_end_halves("q", 1, "here")
    assert not clients.is_producer("p", 1), "it has not said that it answers checks"
    for number in range(GROUPS_PER_CONNECTION_MAX - 1):
        clients.sends_half(f"other-{number}", 1, "here")
    with pytest.raises(LimitExceeded):
        clients.sends_half("one-more", 1, "here")
    clients.sends_half("p", 2, "here")
    clients.disconnected(1)
    assert clients.may_end_halves("p", 1, "here")
    clients.disconnected(2)
    assert not clients.may_end_halves("p", 1, "here")


def test_the_groups_of_a_connection_are_bounded() -> None:
    clients = RocketClients()
    groups = [f"g{number}" for number in range(GROUPS_PER_CONNECTION_MAX)]
    clients.heartbeat(1, heartbeat("a", *groups), 0)
    with pytest.raises(LimitExceeded):
        clients.heartbeat(1, heartbeat("a", "one more"), 0)
    assert clients.group("one more") is None


def test_a_queue_has_one_owner_until_it_is_freed_or_expires() -> None:
    locks = QueueLocks()
    assert locks.lock("g", "a", [("t", 0), ("t", 1)], 0) == [("t", 0), ("t", 1)]
    assert locks.lock("g", "b", [("t", 0), ("t", 2)], 0) == [("t", 2)]
    assert locks.lock("h", "b", [("t", 0)], 0) == [("t", 0)], "each group has its own"
    locks.unlock("g", "b", [("t", 0)])
    assert locks.lock("g", "b", [("t", 0)], LOCK_EXPIRY_MS) == []
    locks.unlock("g", "a", [("t", 0)])
    assert locks.lock("g", "b", [("t", 0)], LOCK_EXPIRY_MS) == [("t", 0)]
    assert locks.lock("g", "b", [("t", 1)], LOCK_EXPIRY_MS + 1) == [("t", 1)], "its owner has not renewed it"
