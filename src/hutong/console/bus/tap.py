"""A tap: what passes at addresses of the bus, for one browser.

Strategy: an interceptor of the bus looks at every message, on the thread that carries it, so it does next to nothing
for the others: one comparison. Of those that match, a short text is kept for the browser. When too many wait for it,
further ones are only counted. So a flood costs the bus little, and memory nothing.

Decides without clock.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from hutong.bus.envelope.message import REPLY_PREFIX
from hutong.console.limits import BUS_BODY_CHARACTERS_SHOWN, TAPPED_WAITING_MAX

if TYPE_CHECKING:
    from hutong.bus.envelope.interceptors import Delivery


class TappedMessage(msgspec.Struct, frozen=True):
    """One message on its way. `direction` is `out` at its sender, `in` before a handler."""

    direction: str
    address: str
    kind: str
    body: str
    is_cut: bool
    headers: list[tuple[str, str]]
    reply_address: str | None


class Tap:
    """`pattern` is an address, or the beginning of addresses with a `*` behind it."""

    def __init__(self, pattern: str) -> None:
        self.seen_total = 0
        self._is_prefix = pattern.endswith("*")
        self._pattern = pattern.removesuffix("*") if self._is_prefix else pattern
        self._waiting: deque[TappedMessage] = deque()
        self._lock = threading.Lock()  # over both: messages are carried on any thread

    def outbound(self, delivery: Delivery) -> None:
        """The interceptor of senders."""
        # Looked at before it goes on: the body belongs to its receiver from then on, which may change it.
        try:
            self._look("out", delivery)
        finally:
            delivery.next()

    def inbound(self, delivery: Delivery) -> None:
        """The interceptor of handlers."""
        try:
            self._look("in", delivery)
        finally:
            delivery.next()

    def take(self) -> tuple[list[TappedMessage], int]:
        """The messages that wait, and the number of those seen so far."""
        with self._lock:
            taken = list(self._waiting)
            self._waiting.clear()
            return taken, self.seen_total

    def _look(self, direction: str, delivery: Delivery) -> None:
        message = delivery.message
        address = message.address
        matches = address.startswith(self._pattern) if self._is_prefix else address == self._pattern
        # Replies go to addresses of the bus's own, which say nothing to readers of `*`.
        if not matches or address.startswith(REPLY_PREFIX):
            return
        with self._lock:
            self.seen_total += 1
            if len(self._waiting) >= TAPPED_WAITING_MAX:
                return
        body, is_cut = shown_body(message.body)
        seen = TappedMessage(
            direction,
            address,
            "send" if message.is_send else "publish",
            body,
            is_cut,
            list(message.header_pairs),
            message.reply_address,
        )
        with self._lock:
            self._waiting.append(seen)


def shown_body(body: Any) -> tuple[str, bool]:
    """The body as text, and True where it was cut. Never raises: bodies are other people's objects."""
    if isinstance(body, str):
        text = body
    elif isinstance(body, bytes | bytearray | memoryview):
        text = bytes(body[:BUS_BODY_CHARACTERS_SHOWN]).hex(" ")
    else:
        try:
            text = msgspec.json.encode(body).decode()
        except (TypeError, ValueError, RecursionError, msgspec.EncodeError):
            text = f"<{type(body).__module__}.{type(body).__qualname__}>"
    return text[:BUS_BODY_CHARACTERS_SHOWN], len(text) > BUS_BODY_CHARACTERS_SHOWN
