import dataclasses

import pytest

from hutong.wire.kafka.apis.k01_fetch import EpochEndOffset, PartitionData
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest
from hutong.wire.kafka.schema import Versions, array, int32, message, string, struct, value


@pytest.mark.parametrize(
    ("text", "inside", "outside"), [("3-13", [3, 13], [2, 14]), ("9+", [9, 99], [8]), ("2", [2], [1, 3])]
)
def test_versions_are_read(text: str, inside: list[int], outside: list[int]) -> None:
    versions = Versions.parse(text)
    assert all(version in versions for version in inside)
    assert not any(version in versions for version in outside)


def test_tables_are_slotted_dataclasses_with_defaults() -> None:
    request = HeartbeatRequest("group", member_id="member")
    assert dataclasses.astuple(request) == ("group", 0, "member", None)
    assert (
        repr(request)
        == "HeartbeatRequest(group_id='group', generation_id=0, member_id='member', group_instance_id=None)"
    )
    with pytest.raises(AttributeError):
        request.groupid = "misspelt"  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        HeartbeatRequest(groupid="misspelt")  # type: ignore[call-arg]


def test_equality_is_by_type_and_value() -> None:
    assert HeartbeatRequest("a") == HeartbeatRequest("a") != HeartbeatRequest("b")
    other: object = (1, 2)
    assert EpochEndOffset(1, 2) != other
    assert {EpochEndOffset(1, 2), EpochEndOffset(1, 2)} == {EpochEndOffset(1, 2)}


def test_lists_are_not_shared_between_instances_and_values_are_frozen() -> None:
    first, second = PartitionData(), PartitionData()
    assert first.aborted_transactions is not second.aborted_transactions
    assert first.diverging_epoch is second.diverging_epoch
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.diverging_epoch.epoch = 3  # type: ignore[misc]


def test_a_new_table_needs_nothing_but_its_rows() -> None:
    @struct
    class Item:
        name: str = string(default="none")

    @value
    class Position:
        line: int = int32(default=-1)

    @message(versions="0-1")
    class Page:
        items: list[Item] = array(Item, "1+")

    assert Page([Item()]).items[0].name == "none"
    assert Position(line=4).line == 4


def test_a_message_has_a_last_version() -> None:
    with pytest.raises(ValueError, match="end somewhere"):
        message(versions="0+")
