"""Options and errors: values with bounds."""

import pytest

from hutong.bus import DeliveryOptions, FailureType, ReplyError
from hutong.foundation.errors import HutongError


@pytest.mark.parametrize("timeout_ms", [0, -1, 1 << 31])
def test_delivery_options_have_a_sensible_timeout(timeout_ms: int) -> None:
    with pytest.raises(ValueError, match="timeout_ms is between 1"):
        DeliveryOptions(timeout_ms=timeout_ms)


@pytest.mark.parametrize(
    "wrong",
    [{"timeout_ms": 1.5}, {"timeout_ms": True}, {"headers": {"a": "b"}}, {"codec_name": 5}, {"timeout_ms": None}],
)
def test_delivery_options_are_checked_where_they_are_made(wrong: dict[str, object]) -> None:
    with pytest.raises(TypeError, match=next(iter(wrong))):
        DeliveryOptions(**wrong)  # type: ignore[arg-type]


def test_reply_errors_say_what_they_are() -> None:
    error = ReplyError(FailureType.NO_HANDLERS)
    assert (error.failure_code, error.message, str(error)) == (-1, "", "no handlers")
    assert repr(ReplyError(FailureType.ERROR, 5, "text")) == "ReplyError(ERROR, 5, 'text')"
    assert isinstance(error, HutongError)
    assert [kind.value for kind in FailureType] == [0, 1, 2, 3]
