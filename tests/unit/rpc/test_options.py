"""Call options: their effect on calls, and the values that are refused."""

from typing import Any

import pytest
from tests.unit.rpc.scenes import Shop, Store

from hutong.bus import Headers
from hutong.foundation.errors import UsageError
from hutong.rpc import CallOptions, Delivery, Rpc, with_options
from hutong.rpc.calling.proxy import Proxy
from hutong.rpc.options import DEFAULT


def test_options_keep_what_is_not_given() -> None:
    first = DEFAULT.changed(timeout=1.5, headers={"a": "1", "b": "2"}, retries=3, delivery=Delivery.AT_LEAST_ONCE)
    assert first == CallOptions(1_500, (("a", "1"), ("b", "2")), 3, None, Delivery.AT_LEAST_ONCE)
    second = first.changed(headers=Headers({"A": "3"}), request_id="x")
    assert second == CallOptions(1_500, (("b", "2"), ("A", "3")), 3, "x", Delivery.AT_LEAST_ONCE)
    assert second.changed().request_id is None


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"timeout": 0}, ValueError),
        ({"timeout": -1}, ValueError),
        ({"timeout": float("nan")}, ValueError),
        ({"timeout": float("inf")}, ValueError),
        ({"timeout": "1"}, TypeError),
        ({"timeout": True}, TypeError),
        ({"headers": {"a": 1}}, TypeError),
        ({"retries": -1}, ValueError),
        ({"retries": 1_001}, ValueError),
        ({"retries": 1.0}, TypeError),
        ({"request_id": 7}, TypeError),
        ({"delivery": "once"}, TypeError),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        DEFAULT.changed(**options)


async def test_a_proxy_with_options_leaves_the_first_as_it_was(rpc: Rpc) -> None:
    shop = rpc.proxy(Shop, timeout=3)
    other = with_options(shop, timeout=1)
    assert isinstance(shop, Proxy)
    assert isinstance(other, Proxy)
    assert (shop._hutong.options.timeout_ms, other._hutong.options.timeout_ms) == (3_000, 1_000)
    assert repr(shop) == "<proxy of Shop at 'shop'>"
    with pytest.raises(AttributeError, match="Shop has no method 'ad'"):
        shop.ad  # noqa: B018
    with pytest.raises(UsageError, match="not for a Store"):
        with_options(Store(), timeout=1)
