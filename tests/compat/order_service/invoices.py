"""What both services do with an order, and what a test may expect of them. Knows nothing of Kafka."""

import json
from collections.abc import Iterable

from hutong.testing import Record

ORDERS, INVOICES, REJECTED = "orders", "invoices", "orders.rejected"
GROUP = "invoicing"


class Poisoned(Exception):
    """An order that will never be readable."""


def invoice_for(order: bytes | None) -> bytes:
    """Raises Poisoned."""
    try:
        read = json.loads(order or b"")
        return json.dumps({"order": read["id"], "total": read["price"] * read["count"]}).encode()
    except (ValueError, KeyError, TypeError) as error:
        raise Poisoned(f"{type(error).__name__}: {error}") from None


def order(number: int) -> str:
    return json.dumps({"id": number, "price": 5, "count": number})


def orders_in(invoices: Iterable[Record]) -> list[int]:
    """The orders that have an invoice, each as often as it has one."""
    return sorted(record.json()["order"] for record in invoices)
