"""Digests of a log: the same for the same records, also where one of two replicas was cleaned."""

from tests.unit.journal.keyed import clean, put, read_records, roll
from tests.unit.journal.stage import Stage

from hutong.cli.cluster.replica_digests import first_difference
from hutong.foundation.errors import HutongError
from hutong.journal.read.digests import ENTRY, Digests
from hutong.wire.kafka.batch.compression import Compression

KEYS = 5
ROUNDS = 100


def replica(changed: int = -1, compression: Compression = Compression.NONE) -> Stage:
    """A replica with records of a few keys, one of which may have another value than elsewhere."""
    stage = Stage()
    for number in range(ROUNDS):
        value = b"other" if number == changed else b"%05d" % number
        put(stage, 1, (b"key-%d" % (number % KEYS), value + b"." * 80), (None, b"x"), compression=compression)
    roll(stage)
    return stage


def digests(stage: Stage, limit: int, *, by_record: bool, max_bytes: int = 2_000) -> bytes:
    """The entries of all parts up to `limit`."""
    entries, offset = b"", 0
    while offset < limit:
        outcomes: list[Digests | HutongError] = []
        stage.journal.log(1).digests(offset, limit, max_bytes, outcomes.append, by_record=by_record)
        stage.settle()
        (found,) = outcomes
        assert isinstance(found, Digests), found
        assert found.next_offset > offset
        entries += found.entries
        offset = found.next_offset
    return entries


def offsets(entries: bytes) -> list[int]:
    return [offset for offset, _ in ENTRY.iter_unpack(entries)]


def test_batches_and_records_have_an_entry_each_and_part_by_part_is_the_same_as_whole() -> None:
    stage = replica()
    assert offsets(digests(stage, 2 * ROUNDS, by_record=False)) == list(range(0, 2 * ROUNDS, 2))
    assert offsets(digests(stage, 2 * ROUNDS, by_record=True)) == list(range(2 * ROUNDS))
    for by_record in (False, True):
        whole = digests(stage, 2 * ROUNDS, by_record=by_record, max_bytes=1 << 20)
        assert digests(stage, 2 * ROUNDS, by_record=by_record) == whole


def test_a_cleaned_replica_and_one_that_was_not_hold_the_same() -> None:
    for compression in (Compression.NONE, Compression.GZIP):
        whole, cleaned = replica(compression=compression), replica(compression=compression)
        clean(cleaned, 1)
        kept = {record.offset for record in read_records(cleaned, 1)}
        assert KEYS <= len(kept) < ROUNDS
        end = cleaned.journal.log(1).high_watermark
        entries = {1: digests(whole, end, by_record=True), 2: digests(cleaned, end, by_record=True)}
        assert set(offsets(entries[2])) == kept
        up_to = {1: 0, 2: cleaned.journal.log(1).rewritten_offset}
        assert whole.journal.log(1).rewritten_offset == 0
        assert first_difference(1, entries, up_to) is None
        assert first_difference(2, entries, up_to) is None
        missing = first_difference(1, entries, {})
        assert missing is not None, "without a cleaning they had to be there"
        assert (missing.nodes, missing.offset) == ((2,), min(set(range(end)) - kept))


def test_a_record_that_is_not_the_same_is_found_in_a_cleaned_replica() -> None:
    changed = ROUNDS - 1
    whole, cleaned = replica(changed), replica()
    clean(cleaned, 1)
    end = cleaned.journal.log(1).high_watermark
    entries = {1: digests(whole, end, by_record=True), 2: digests(cleaned, end, by_record=True)}
    found = first_difference(1, entries, {1: 0, 2: cleaned.journal.log(1).rewritten_offset})
    assert found is not None
    assert (found.offset, found.nodes) == (2 * changed, (2,))
