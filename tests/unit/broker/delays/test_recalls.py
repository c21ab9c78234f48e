"""The recalls that a node keeps."""

import pytest

from hutong.broker.delays import recalls
from hutong.broker.delays.recalls import KEPT_MS, Recalls
from hutong.foundation.errors import LimitExceeded


def test_a_recall_is_kept_until_its_record_would_have_come() -> None:
    kept = Recalls()
    kept.note("t", b"a", 1_000, 5)
    kept.note("t", b"b", 2_000, 6)
    assert (kept.has("t", b"a"), kept.has("u", b"a"), kept.has("t", b"c")) == (True, False, False)
    assert kept.start_offset(9) == 5
    kept.forget(1_000 + KEPT_MS)
    assert len(kept) == 2
    kept.forget(1_001 + KEPT_MS)
    assert (kept.has("t", b"a"), kept.has("t", b"b")) == (False, True)
    assert kept.start_offset(9) == 6
    kept.forget(3_000 + KEPT_MS)
    assert kept.start_offset(9) == 9


def test_there_is_room_for_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recalls, "RECALLS_MAX", 2)
    kept = Recalls()
    kept.note("t", b"a", 1, 1)
    kept.check_room()
    kept.note("t", b"b", 1, 2)
    with pytest.raises(LimitExceeded):
        kept.check_room()
