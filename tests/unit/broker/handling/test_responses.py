"""A gathered response is complete exactly when its last part settles, before or after the handler returns."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.broker.handling.responses import PendingInParts, error_code_of
from hutong.foundation.errors import DiskFull, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.wire.kafka.error_codes import ErrorCode


@given(st.integers(0, 20), st.integers(0, 20))
def test_the_response_comes_once_after_the_last_part(parts: int, settled_early: int) -> None:
    pending: PendingInParts[list[int]] = PendingInParts([])
    early = min(parts, settled_early)
    for index in range(parts):
        pending.expect_part()
        if index < early:
            pending.settle_part()
    answer = pending.answer()
    if early == parts:
        assert answer is pending.response
        return
    assert isinstance(answer, Pending)
    for _ in range(parts - early):
        assert not answer.is_complete
        pending.settle_part()
    assert answer.is_complete


def test_a_refusal_carries_its_code_and_anything_else_is_the_disk() -> None:
    assert error_code_of(Refused(ErrorCode.INVALID_RECORD)) == ErrorCode.INVALID_RECORD
    assert error_code_of(DiskFull("no space")) == ErrorCode.KAFKA_STORAGE_ERROR
