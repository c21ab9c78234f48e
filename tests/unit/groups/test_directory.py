"""The directory of groups: one id, one kind."""

from tests.unit.groups.stage import SETTINGS, Stage

from hutong.groups.directory import GroupDirectory, GroupKind
from hutong.wire.kafka.error_codes import ErrorCode


def test_an_id_belongs_to_one_kind_until_it_is_released() -> None:
    directory = GroupDirectory()
    assert directory.kind("g") is None
    assert directory.claim("g", GroupKind.CONSUMER)
    assert directory.claim("g", GroupKind.CONSUMER)
    assert not directory.claim("g", GroupKind.CLASSIC)
    directory.release("g", GroupKind.CLASSIC)
    assert directory.kind("g") is GroupKind.CONSUMER
    directory.release("g", GroupKind.CONSUMER)
    assert directory.kind("g") is None
    assert directory.claim("g", GroupKind.CLASSIC)


def test_a_classic_group_is_entered_and_left_out_again() -> None:
    stage = Stage(SETTINGS)
    directory = stage.groups.directory
    stage.member()
    assert directory.kind("g") is GroupKind.CLASSIC
    stage.pass_time(60_000)
    assert stage.delete() == [ErrorCode.NONE]
    assert directory.kind("g") is None


def test_a_name_of_another_kind_is_no_classic_group() -> None:
    stage = Stage(SETTINGS)
    assert stage.groups.directory.claim("g", GroupKind.SHARE)
    (reply,) = stage.join()
    assert reply.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_one_client_cannot_have_all_groups_whatever_it_does() -> None:
    directory = GroupDirectory(100)
    made = 0
    while directory.has_room(f"g{made}", "flood"):
        assert directory.claim(f"g{made}", list(GroupKind)[made % 3], "flood")
        made += 1
    assert made == 75
    assert directory.has_room("g0", "flood"), "what is there may be named again"
    assert directory.has_room("new", "other")
    for number in range(made):
        directory.release(f"g{number}", list(GroupKind)[number % 3])
    assert len(directory) == 0
    assert directory.has_room("g", "flood")


def test_a_group_that_was_there_at_the_start_is_held_by_who_claims_it_first() -> None:
    directory = GroupDirectory(4)
    directory.claim("old", GroupKind.CLASSIC)
    assert directory.holder("old") == ""
    directory.claim("old", GroupKind.CLASSIC, "ann")
    directory.claim("old", GroupKind.CLASSIC, "bob")
    assert directory.holder("old") == "ann"
    directory.release("old", GroupKind.CLASSIC)
    assert directory.holder("old") == ""
