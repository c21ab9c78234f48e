"""Appends that wait while too much of their partition group is unflushed."""

from types import SimpleNamespace
from typing import Any

from hutong.broker.handling.cluster_view import AloneView
from hutong.broker.produce.congestion import Congestion
from hutong.broker.produce.record_appends import append_records
from hutong.foundation.errors import LimitExceeded, OwnerGone, Refused
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import Owner, WaitTable
from hutong.wire.kafka.batch.records import Record

GROUP = "days"


class Partition:
    """One that this node does not lead: an append that gets so far is refused."""

    group = GROUP
    config = SimpleNamespace(receive_qos=True)

    def check_served(self) -> None:
        raise Refused(6, "another node leads")


class Waits:
    """A congested group, and the outcomes of the appends to it."""

    def __init__(self, waits_max: int = 10) -> None:
        self.congestion = Congestion({}, WaitTable("held_producers", TimerWheel(0), waits_max))
        self.congestion.pause(GROUP)
        self.outcomes: list[Any] = []

    def append(self, owner: Owner) -> None:
        broker: Any = SimpleNamespace(congestion=self.congestion, cluster=AloneView(1))
        partition: Any = Partition()
        append_records(broker, partition, [Record()], owner, self.outcomes.append)


def test_an_append_goes_on_when_the_group_has_caught_up() -> None:
    waits = Waits()
    waits.append(Owner())
    assert waits.outcomes == []
    waits.congestion.go_on(GROUP)
    assert [type(each) for each in waits.outcomes] == [Refused]


def test_an_append_ends_with_its_client_while_the_group_is_congested() -> None:
    waits, owner = Waits(), Owner()
    waits.append(owner)
    owner.end()
    waits.append(owner)
    assert [type(each) for each in waits.outcomes] == [OwnerGone, OwnerGone]
    waits.congestion.go_on(GROUP)
    assert len(waits.outcomes) == 2


def test_an_append_is_refused_where_too_many_wait() -> None:
    waits = Waits(waits_max=1)
    waits.append(Owner())
    waits.append(Owner())
    assert [type(each) for each in waits.outcomes] == [LimitExceeded]
