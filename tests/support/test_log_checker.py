"""The checker must find each kind of anomaly that is planted, and nothing in a history that is fine."""

from collections.abc import Callable

import pytest
from tests.support.log_checker import (
    DUPLICATED,
    FAILED_BUT_READ,
    INCONSISTENT_OFFSET,
    LOST,
    MOVED,
    NEVER_SENT,
    NOT_RISING,
    REORDERED,
    History,
    Partition,
    check,
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
    return history, final


def kinds(history: History, final: Read) -> set[str]:
    return {anomaly.kind for anomaly in check(history, final_reads={PARTITION: final})}


def test_a_sound_history_has_no_anomaly() -> None:
    assert kinds(*sound()) == set()


def drop_acknowledged(history: History, final: Read) -> None:
    del final[3]


def double(history: History, final: Read) -> None:
    final.append((8, b"7"))


def swap(history: History, final: Read) -> None:
    final[7] = (7, b"8")
    final.append((8, b"7"))


def another_value_at_an_offset(history: History, final: Read) -> None:
    history.poll(PARTITION, [(7, b"8")])


def acknowledge_elsewhere(history: History, final: Read) -> None:
    history.acknowledge(PARTITION, b"7", 9)


def read_a_failed_one(history: History, final: Read) -> None:
    final.append((9, b"9"))


def read_a_stranger(history: History, final: Read) -> None:
    final.append((9, b"never"))


def step_back(history: History, final: Read) -> None:
    history.poll(PARTITION, [(4, b"4"), (3, b"3")])


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (drop_acknowledged, LOST),
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
