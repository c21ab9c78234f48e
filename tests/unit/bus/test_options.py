"""Options and errors: values with bounds."""

import pytest

from hutong.bus import DeliveryOptions, FailureType, ReplyError
from hutong.foundation.errors import HutongError, UsageError


@pytest.mark.parametrize("timeout", [0, -1, 2_147_484, float("nan"), float("inf"), 10**400, "1", None, True])
def test_delivery_options_have_a_sensible_timeout(timeout: float) -> None:
    with pytest.raises(UsageError, match="timeout is "):
        DeliveryOptions(timeout=timeout)


@pytest.mark.parametrize(("timeout", "timeout_ms"), [(1, 1_000), (1.1, 1_100), (0.0001, 1), (2_147_483.647, 2**31 - 1)])
def test_a_timeout_becomes_whole_milliseconds(timeout: float, timeout_ms: int) -> None:
    assert DeliveryOptions(timeout=timeout).timeout_ms == timeout_ms


@pytest.mark.parametrize(
    "wrong",
    [{"headers": {"a": "b"}}, {"codec_name": 5}],
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
