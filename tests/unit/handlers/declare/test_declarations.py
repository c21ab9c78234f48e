"""Declarations of handlers: wrong ones end the program at its start, with a sentence that says what to write."""

import dataclasses
from typing import Any

import msgspec
import pytest

from hutong.foundation.errors import UsageError
from hutong.handlers import App, MessageContext, Retry
from hutong.handlers.declare.models import UndecodableMessage, converter_of, decoder_of, encoded
from hutong.handlers.declare.signature import read_signature


class Order(msgspec.Struct):
    number: int


@dataclasses.dataclass
class Parcel:
    weight: float


@pytest.fixture
def app() -> App:
    return App("localhost:9092")


async def takes_order(order: Order) -> None: ...


def test_a_handler_stays_the_function_that_it_was(app: App) -> None:
    assert app.topic("orders", group="billing")(takes_order) is takes_order
    [handler] = app.topic_handlers
    assert (handler.topics, handler.group, handler.dead_letters) == (("orders",), "billing", "orders.billing.dead")
    assert (handler.retry.attempts, handler.signature.model, handler.concurrency) == (4, Order, 1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "needs a group"),
        ({"group": "g", "retries": -1}, "retries is a number of further attempts"),
        ({"group": "g", "retries": True}, "retries is a number"),
        ({"group": "g", "concurrency": 0}, "concurrency is from 1 to 10000, not 0"),
        ({"group": "g", "batch_wait": -1}, "are seconds"),
        ({"group": "g", "start": "now"}, "'earliest' or 'latest'"),
        ({"group": "g", "exactly_once": True}, "name their topic with to="),
        ({"group": "g", "to": "in voices"}, "is no name of a topic"),
        ({"group": "g", "dead_letters": "orders"}, "cannot be orders itself"),
        ({"group": "g\n"}, "not printable"),
    ],
)
def test_a_wrong_option_is_refused(app: App, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        app.topic("orders", **options)(takes_order)
    assert app.topic_handlers == []


def test_a_wrong_batch_is_refused(app: App) -> None:
    async def takes_orders(orders: list[Order]) -> None: ...

    with pytest.raises(UsageError, match="batch is from 1 to 100000 messages, not 0"):
        app.topic("orders", group="g", batch=0)(takes_orders)
    with pytest.raises(UsageError, match=r"takes batches: annotate order with list\[...\]"):
        app.topic("orders", group="g", batch=5)(takes_order)


def test_a_decorator_without_its_arguments_is_refused(app: App) -> None:
    with pytest.raises(UsageError, match=r"not @app\.topic"):
        app.topic(takes_order)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"not @app\.address"):
        app.address(takes_order)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="name a topic"):
        app.topic(group="g")(takes_order)
    with pytest.raises(UsageError, match=r"write @app.topic\('orders', group=...\)"):
        app.address("topic:orders")


def test_retries_may_be_a_whole_policy(app: App) -> None:
    app.topic("orders", group="g", retries=Retry(attempts=None), dead_letters=None)(takes_order)
    [handler] = app.topic_handlers
    assert (handler.retry.attempts, handler.dead_letters) == (None, None)


def test_parameters_are_found_by_their_annotations() -> None:
    def handler(context: MessageContext, order: Order) -> int:
        return 1

    signature = read_signature(handler)
    assert (signature.model, signature.places, signature.returned, signature.is_async) == (
        Order,
        (True, False),
        int,
        False,
    )
    assert signature.arguments("order", lambda: "context") == ("context", "order")


def test_a_handler_may_take_nothing() -> None:
    def handler() -> None: ...

    assert read_signature(handler).arguments("order", lambda: "context") == ()


def two(order: Order, parcel: Parcel) -> None: ...
def named(*, order: Order) -> None: ...
def one_context_for_many(contexts: list[MessageContext]) -> None: ...
def unknown(order: "Nothing") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (two, "two takes order and parcel: a handler takes one message"),
        (named, "parameters are plain ones"),
        (one_context_for_many, "batch= makes the difference"),
        (unknown, "an annotation names 'Nothing'"),
        (Order, "A handler is a function"),
        (3, "A handler is a function"),
    ],
)
def test_a_wrong_signature_is_refused(function: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        read_signature(function)


@pytest.mark.parametrize(
    ("model", "value", "expected"),
    [
        (Order, b'{"number": 7}', Order(7)),
        (Parcel, b'{"weight": 1.5}', Parcel(1.5)),
        (dict[str, int], b'{"a": 1}', {"a": 1}),
        (list[int], b"[1, 2]", [1, 2]),
        (Any, b"null", None),
        (bytes, b"\xff", b"\xff"),
        (bytes, None, b""),
        (str, "grün".encode(), "grün"),
        (Order | None, None, None),
        (Order | None, b'{"number": 7}', Order(7)),
    ],
)
def test_values_are_decoded_by_their_model(model: Any, value: bytes | None, expected: object) -> None:
    assert decoder_of(model)(value) == expected


@pytest.mark.parametrize(
    ("model", "value", "sentence"),
    [
        (Order, None, "a tombstone"),
        (Order, b"", "it is no Order"),
        (Order, b'{"number": "seven"}', r"Expected `int`, got `str` - at `\$.number`"),
        (Order, b"\xff\xfe", "it is no Order"),
        (Any, b"[" * 100_000, "it is no"),
        (str, b"\xff", "it is no UTF-8"),
    ],
)
def test_hostile_values_are_undecodable(model: Any, value: bytes | None, sentence: str) -> None:
    with pytest.raises(UndecodableMessage, match=sentence):
        decoder_of(model)(value)


def test_a_model_that_json_cannot_say_is_refused_when_it_is_declared(app: App) -> None:
    async def handler(message: App) -> None: ...

    with pytest.raises(UsageError, match="App cannot be decoded"):
        app.topic("orders", group="g")(handler)
    with pytest.raises(UsageError, match="App cannot be decoded"):
        app.address("prices")(handler)


def test_bodies_of_the_bus_are_converted() -> None:
    assert converter_of(Order)({"number": 3}) == Order(3)
    assert converter_of(bytes)(b"x") == b"x"
    with pytest.raises(UndecodableMessage, match="it is no Order"):
        converter_of(Order)("three")


@pytest.mark.parametrize(
    ("value", "content"),
    [(None, None), (b"x", b"x"), ("é", "é".encode()), (Order(1), b'{"number":1}'), ({"a": [1]}, b'{"a":[1]}')],
)
def test_values_are_encoded(value: object, content: bytes | None) -> None:
    assert encoded(value)[0] == content


def test_pydantic_models_are_theirs() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Bill", cents=(int, pydantic.Field(ge=0)))
    assert decoder_of(model)(b'{"cents": 3}') == model(cents=3)
    assert encoded(model(cents=3))[0] == b'{"cents":3}'
    with pytest.raises(UndecodableMessage, match="greater than or equal to 0"):
        decoder_of(model)(b'{"cents": -3}')
    assert converter_of(model)({"cents": 3}) == model(cents=3)


def test_an_app_needs_a_broker_and_a_handler_and_to_run() -> None:
    with pytest.raises(UsageError, match="needs the address of a broker"):
        App("")
    with pytest.raises(UsageError, match="does not run"):
        _ = App("localhost:9092").bus


async def test_an_app_without_handlers_does_not_run(app: App) -> None:
    with pytest.raises(UsageError, match="has no handlers"):
        async with app.running():
            pass
