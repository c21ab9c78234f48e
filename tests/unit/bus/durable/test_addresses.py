"""Names of durable addresses, groups and dead-letter topics: what is taken, and what is said of the rest."""

import pytest

from hutong.bus.durable.addresses import checked_group, dead_letter_topic, is_durable, topic_of
from hutong.bus.durable.consume.retry import Order, Retry
from hutong.bus.durable.options import checked
from hutong.foundation.errors import UsageError


def test_an_address_names_a_topic() -> None:
    assert is_durable("topic:orders")
    assert not is_durable("orders")
    assert topic_of("topic:orders.v1_a-B") == "orders.v1_a-B"
    assert topic_of("topic:" + "x" * 249) == "x" * 249


@pytest.mark.parametrize("name", ["", "a b", "ö", ".", "..", "a/b", "topic:a", "a\n", "\ud800", "x" * 250])
def test_what_is_no_topic_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="topic"):
        topic_of(f"topic:{name}")


def test_a_group_is_needed_and_has_bounds() -> None:
    assert checked_group("billing, Europe", "topic:orders") == "billing, Europe"
    for wrong in (None, "", "a\nb", "x" * 250):
        with pytest.raises(UsageError, match=r"group"):
            checked_group(wrong, "topic:orders")


def test_where_dead_letters_go() -> None:
    assert dead_letter_topic("orders", "billing", "") == "orders.billing.dead"
    assert dead_letter_topic("orders", "billing", "orders.dead") == "orders.dead"
    assert dead_letter_topic("orders", "billing", "topic:orders.dead") == "orders.dead"
    assert dead_letter_topic("orders", "billing", None) is None


def test_dead_letter_topics_that_cannot_be() -> None:
    with pytest.raises(UsageError, match="nothing would ever leave it"):
        dead_letter_topic("orders", "billing", "topic:orders")
    for group in ("billing, Europe", "x" * 245):
        with pytest.raises(UsageError, match="dead_letter=NAME"):
            dead_letter_topic("orders", group, "")


def test_options_have_defaults() -> None:
    options = checked("topic:orders", {"group": "billing"})
    assert (options.topic, options.dead_letter, options.order) == ("orders", "orders.billing.dead", Order.PARTITION)
    assert options.retry == Retry()
    assert not options.from_latest


@pytest.mark.parametrize(
    "wrong",
    [
        {"grup": "x"},
        {"retry": 5},
        {"order": "key"},
        {"start": "middle"},
        {"handling_max": 0},
        {"handling_max": 10_001},
        {"member": "a b"},
        {"member": ""},
    ],
)
def test_options_that_cannot_be(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        checked("topic:orders", {"group": "billing", **wrong})  # type: ignore[typeddict-item]


@pytest.mark.parametrize("buffered_max", [0, 1_000_001])
def test_a_buffer_has_bounds(buffered_max: int) -> None:
    with pytest.raises(UsageError, match="max_buffered_messages"):
        checked("topic:orders", {"group": "billing"}, buffered_max)
