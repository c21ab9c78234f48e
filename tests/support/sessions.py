"""Sessions of clients as dispatch would make them, without a connection."""

from collections.abc import Callable
from typing import Final

from hutong.broker.handling.listeners import Listener, SecurityProtocol
from hutong.broker.handling.session import ClientSession
from hutong.foundation.waiting.table import Owner

LISTENER: Final = Listener("PLAINTEXT", SecurityProtocol.PLAINTEXT, "broker.example", 9092)


def _nothing() -> None:
    """The release of a session that nothing holds."""


def session_of(number: int = 1, address: str = "127.0.0.1", release: Callable[[], None] = _nothing) -> ClientSession:
    return ClientSession(number, address, 1234, LISTENER, Owner(), release)
