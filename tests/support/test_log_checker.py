"""The checker must find each kind of anomaly that is planted, and nothing in a history that is fine."""

from collections.abc import Callable

import pytest
from tests.support.log_checker import (
    COMMIT_LOST,
    DUPLICATED,
    FAILED_BUT_READ,
    INCONSISTENT_OFFSET,
    LOST,
    MOVED,
    NEVER_SENT,
    NOT_RISING,
    REORDERED,
    SKIPPED,
    TWO_OWNERS,
    UNPROCESSED,
    History,
    Partition,
    check,
    merged,
)

PARTITION: Partition = ("t", 0)
Read = list[tuple[int, bytes]]


def sound() -> tuple[History, Read]:
    """Ten sends: seven acknowledged, one unknown but written, one unknown and gone, one failed."""
    history = History()
    values = [b"%d" % number for number in range(10)]
    for value in values:
        history.invoke("p", PARTITION, value)
    for offset, value in enumerate(values[:7]):
        history.acknowledge(PARTITION, value, offset)
    history.fail(PARTITION, values[9])
    final = list(enumerate(values[:8]))
    history.poll(PARTITION, final[2:5])
    for offset in range(6):
        history.process("g", PARTITION, offset)
    history.commit("g", PARTITION, 5)
    history.own("g", 1, PARTITION, "one")
    history.own("g", 2, PARTITION, "two")
    return history, final


def kinds(history: History, final: Read, committed: int = 5) -> set[str]:
    commits = {("g", PARTITION): committed}
    return {anomaly.kind for anomaly in check(history, final_reads={PARTITION: final}, final_commits=commits)}


def test_a_sound_history_has_no_anomaly() -> None:
    assert kinds(*sound()) == set()


def drop_acknowledged(history: History, final: Read) -> None:
    del final[0]


def drop_what_was_read(history: History, final: Read) -> None:
    history.poll(PARTITION, final[7:])
    del final[7]


def leave_one_out(history: History, final: Read) -> None:
    history.poll(PARTITION, [final[2], final[4]])


def commit_ahead(history: History, final: Read) -> None:
    history.processed["g", PARTITION].remove(3)


def lose_a_commit(history: History, final: Read) -> None:
    history.commit("g", PARTITION, 6)


def give_to_two(history: History, final: Read) -> None:
    history.own("g", 2, PARTITION, "one")


def double(history: History, final: Read) -> None:
    final.append((8, b"7"))


def swap(history: History, final: Read) -> None:
    final[7] = (7, b"8")
    final.append((8, b"7"))


def another_value_at_an_offset(history: History, final: Read) -> None:
    history.poll(PARTITION, [(7, b"6")])


def acknowledge_elsewhere(history: History, final: Read) -> None:
    history.acknowledge(PARTITION, b"7", 9)


def read_a_failed_one(history: History, final: Read) -> None:
    final.append((8, b"9"))


def read_a_stranger(history: History, final: Read) -> None:
    final.append((8, b"never"))


def step_back(history: History, final: Read) -> None:
    history.poll(PARTITION, [(4, b"4"), (3, b"3")])


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (drop_acknowledged, LOST),
        (drop_what_was_read, LOST),
        (leave_one_out, SKIPPED),
        (commit_ahead, UNPROCESSED),
        (lose_a_commit, COMMIT_LOST),
        (give_to_two, TWO_OWNERS),
        (double, DUPLICATED),
        (swap, REORDERED),
        (another_value_at_an_offset, INCONSISTENT_OFFSET),
        (acknowledge_elsewhere, MOVED),
        (read_a_failed_one, FAILED_BUT_READ),
        (read_a_stranger, NEVER_SENT),
        (step_back, NOT_RISING),
    ],
)
def test_a_planted_anomaly_is_found_alone(plant: Callable[[History, Read], None], kind: str) -> None:
    history, final = sound()
    plant(history, final)
    assert kinds(history, final) == {kind}


def test_acknowledged_records_of_a_partition_nobody_read_are_lost() -> None:
    history, _ = sound()
    assert [anomaly.kind for anomaly in check(history, final_reads={})] == [LOST]


def test_a_producer_that_may_repeat_may_double_and_no_other() -> None:
    history, final = sound()
    double(history, final)
    history.may_repeat("another")
    assert kinds(history, final) == {DUPLICATED}
    history.may_repeat("p")
    assert kinds(history, final) == set()


def test_what_was_given_up_is_not_missed() -> None:
    history, final = sound()
    history.delete_before(PARTITION, 4)
    assert kinds(history, final) == set(), "it may be there all the same"
    assert kinds(history, final[3:]) == kinds(history, final[4:]) == set()
    assert kinds(history, final[5:]) == {LOST}
    history.poll(PARTITION, [final[1], final[4]])
    assert kinds(history, final) == set()


def test_merged_histories_are_judged_as_one() -> None:
    (one, final), (other, _) = sound(), sound()
    other.invoked.clear()
    assert kinds(merged([one, other]), final) == set()
    other.own("g", 1, PARTITION, "another")
    other.fail(PARTITION, b"0")
    other.acknowledge(PARTITION, b"9", 9)
    assert kinds(merged([one, other]), final) == {TWO_OWNERS, FAILED_BUT_READ, LOST}
