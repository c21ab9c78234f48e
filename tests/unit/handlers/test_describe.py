"""The AsyncAPI document of an app, checked by models of AsyncAPI 3.0 that are no code of ours."""

import dataclasses
import json
import warnings
from typing import Any

import msgspec
import pytest

from hutong.handlers import App, MessageContext, Output

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own field names
    from asyncapi3 import AsyncAPI3


class Order(msgspec.Struct):
    """An order."""

    number: int
    lines: list["Line"]


@dataclasses.dataclass
class Line:
    article: str
    count: int = 1


class Invoice(msgspec.Struct):
    order: int


def large_app() -> App:
    app = App("localhost:9092,other:9092", title="Billing", version="2.1")

    @app.topic("orders", "old.orders", group="billing", to="invoices")
    async def bill(order: Order, context: MessageContext) -> Invoice:
        """Write an invoice.

        And nothing else.
        """
        return Invoice(1)

    @app.topic("old_orders", group="many", batch=10, to="invoices", dead_letters=None)
    async def bill_many(orders: list[Order]) -> list[Invoice]:
        return []

    @app.topic("raw", group="raw", to="anything")
    async def raw(message: bytes) -> Output:
        return Output(message)

    @app.topic("words", group="words")
    def words(message: str) -> None: ...

    @app.address("prices.get")
    async def bill_again(article: dict[str, int]) -> float | None: ...

    return app


def check(document: dict[str, Any]) -> None:
    AsyncAPI3.model_validate(json.loads(json.dumps(document)))


def test_the_document_is_one_of_asyncapi() -> None:
    document = large_app().asyncapi()
    check(document)
    assert document["info"] == {"title": "Billing", "version": "2.1"}
    assert document["servers"]["kafka"] == {"host": "localhost:9092", "protocol": "kafka"}
    assert [entry["address"] for entry in document["channels"].values()] == [
        "orders", "old.orders", "invoices", "orders.billing.dead", "old_orders", "raw", "anything", "raw.raw.dead",
        "words", "words.words.dead", "prices.get", None,
    ]  # fmt: skip
    bill = document["operations"]["bill_orders"]
    assert (bill["action"], bill["summary"]) == ("receive", "Write an invoice.")
    assert bill["bindings"]["kafka"]["groupId"]["enum"] == ["billing"]
    assert document["components"]["schemas"]["Line"]["required"] == ["article"]
    assert document["components"]["messages"]["Order"]["payload"] == {"$ref": "#/components/schemas/Order"}


def test_every_reference_leads_somewhere() -> None:
    document = large_app().asyncapi()

    def references(part: Any) -> list[str]:
        if isinstance(part, list):
            return [each for inner in part for each in references(inner)]
        if not isinstance(part, dict):
            return []
        own = [part["$ref"]] if "$ref" in part else []
        return own + [each for inner in part.values() for each in references(inner)]

    found = references(document)
    assert len(found) > 30
    for reference in found:
        place: Any = document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]


def test_pydantic_models_have_their_own_schemas() -> None:
    pydantic = pytest.importorskip("pydantic")
    line: Any = pydantic.create_model("PydanticLine", article=(str, ...))
    model = pydantic.create_model("PydanticOrder", line=(line, ...))
    app = App("localhost:9092")

    async def bill(order: Any) -> None: ...

    bill.__annotations__["order"] = model
    app.topic("orders", group="billing")(bill)
    document = app.asyncapi()
    check(document)
    assert set(document["components"]["schemas"]) == {"PydanticOrder", "PydanticLine"}


def test_functions_of_one_name_are_operations_of_their_own() -> None:
    app = App("localhost:9092")
    for topic in ("a.b", "a_b"):

        @app.topic(topic, group="g", dead_letters=None)
        async def bill(order: Order) -> None: ...

    document = app.asyncapi()
    check(document)
    assert list(document["operations"]) == ["bill", "bill_2"]
    assert list(document["channels"]) == ["a_b", "a_b_2"]


def test_the_checker_refuses_what_is_wrong() -> None:
    document = large_app().asyncapi()
    document["operations"]["bill_orders"]["action"] = "fly"
    with pytest.raises(ValueError, match="action"):
        check(document)
