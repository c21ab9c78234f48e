"""Batches that older versions stored without looking at their records."""

from typing import Any

import pytest
from tests.support.lying_batches import batch, lies, record
from tests.unit.journal.keyed import clean, put, roll
from tests.unit.journal.stage import DIRECTORY, SMALL, Stage, append_batch

from hutong.foundation.errors import CorruptData, ProtocolError
from hutong.journal.append.qos import Qos
from hutong.journal.recover import stored_records
from hutong.journal.recover.inspect import Inspector, JournalProblem, Lost, Remedy
from hutong.journal.recover.repair import repair
from hutong.journal.recover.stored_records import find_false_batches
from hutong.wire.kafka.batch.record_walk import examine_sparse
from hutong.wire.kafka.batch.records import Record, build_batch, parse_batch_header

NOW_MS = 1_000


def stored(*batches: bytes) -> tuple[Stage, Inspector]:
    """A closed journal with these batches, behind a sound one and before another."""
    stage = Stage()
    sound = build_batch([Record(timestamp_ms=NOW_MS, value=b"a"), Record(timestamp_ms=NOW_MS, value=b"b")])
    for content in (sound, *batches, sound):
        append_batch(stage.journal.log(1), content, Qos.PERSISTENCE, _ignore)
        stage.settle()
    stage.close()
    return stage, Inspector(stage.disk, DIRECTORY, SMALL)


def _ignore(_outcome: Any) -> None:
    """Acknowledgements are not looked at."""


LIES = [
    *(pytest.param(content, id=name) for name, content, _ in lies(NOW_MS)),
    pytest.param(batch(record(0), 1, now_ms=NOW_MS, last_offset_delta=9), id="offsets without records"),
    pytest.param(batch(record(0), 1, now_ms=NOW_MS, max_timestamp_ms=5_000), id="another greatest timestamp"),
]


@pytest.mark.parametrize("content", LIES)
def test_a_false_batch_is_found_with_its_place_and_its_offsets(content: bytes) -> None:
    header = parse_batch_header(content)
    _, inspector = stored(content)
    assert inspector.problems() == [], "its bytes are intact"
    (found,) = find_false_batches(inspector)
    assert found.remedy is Remedy.READ_PAST
    assert found.lost == [Lost(1, 2, 2 + header.last_offset + 1)]
    assert found.position is not None
    file = inspector.disk.open(found.path)
    assert bytes(file.read(len(content), found.position))[16:] == content[16:], "the leader epoch is the log's"
    with pytest.raises(CorruptData, match="is intact: let consumers seek past it"):
        repair(inspector, found)


def test_sound_batches_are_none_of_them() -> None:
    stamped = batch(record(0), 1, now_ms=NOW_MS, attributes=8, max_timestamp_ms=5_000)
    _, inspector = stored(build_batch([Record(timestamp_ms=NOW_MS, value=b"x")], producer_id=7), stamped)
    assert find_false_batches(inspector) == []


def test_gaps_that_cleaning_left_are_sound() -> None:
    stage = Stage()
    for number in range(60):
        keys = [(b"k%d" % key, b"%d" % number + b"." * 40) for key in (number % 3, 3, 4 + number)]
        put(stage, 1, *keys, producer_id=5, producer_epoch=0, base_sequence=3 * number)
    roll(stage)
    clean(stage, 1)
    stage.close()
    inspector = Inspector(stage.disk, DIRECTORY, SMALL)
    assert "cleaned segment" in {row.kind for row in inspector.files()}
    assert find_false_batches(inspector) == []


@pytest.mark.parametrize(("data", "count"), [(record(1) + record(1), 2), (record(4), 1), (record(0) + record(2), 3)])
def test_offsets_of_a_cleaned_batch_rise_within_it(data: bytes, count: int) -> None:
    examine_sparse(record(0) + record(3), 0, 2, NOW_MS, 3)
    with pytest.raises(ProtocolError):
        examine_sparse(data, 0, count, NOW_MS, 3)


def test_findings_are_bounded_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_records, "FINDINGS_MAX", 2)
    _, inspector = stored(*[batch(b"\xff" * 50, 1, now_ms=NOW_MS)] * 5)
    found = find_false_batches(inspector)
    assert len(found) == 3
    assert found[-1] == JournalProblem(
        DIRECTORY, None, "3 more batches do not hold what their headers say", Remedy.READ_PAST
    )
