"""Services on the event bus, by the convention of Vert.x's service proxies.

A call is a request with the header `action` and, as its body, an object of the arguments by name. The reply is the
result as JSON has it, or a failure with the code and message of the service, and its debug information.

Knows no implementation: what arrives is a dispatcher's.
"""

from functools import partial
from typing import Any, Final, TypeVar

from hutong.bus.envelope.headers import Headers
from hutong.bus.envelope.message import Message
from hutong.bus.envelope.service_failure import ServiceFailure
from hutong.bus.options import DeliveryOptions
from hutong.foundation.errors import LimitExceeded
from hutong.rpc.call import ACTION, IncomingCall, Outcome
from hutong.rpc.descriptions.conversion import arguments_from, result_to_builtins
from hutong.rpc.errors import DISPATCH_CODE, DispatchFailed, Failure
from hutong.rpc.serving.dispatcher import Dispatcher

A = TypeVar("A")
PEER: Final = "bus"
"""The peer of calls that came over the bus."""


class BusCall(IncomingCall):
    """One that came as a message."""

    body: Any = None

    def arguments(self, kind: type[A]) -> A:
        return arguments_from(self.body, self.action, kind)

    def raw_arguments(self) -> Any:
        return self.body


class BusEndpoint:
    """Receives the messages of one dispatcher, in its context."""

    __slots__ = ("_address", "_dispatcher")

    def __init__(self, address: str, dispatcher: Dispatcher) -> None:
        self._address = address
        self._dispatcher = dispatcher

    def receive(self, message: Message) -> None:
        """For the bus: the handler of its consumer."""
        pairs = message.header_pairs
        call = BusCall(self._address, action_of(pairs), pairs, PEER, body=message.body)
        self._dispatcher.dispatch(call, partial(answer, message, call.action))


def action_of(pairs: tuple[tuple[str, str], ...]) -> str:
    for name, value in pairs:
        if name == ACTION or name.lower() == ACTION:
            return value
    return ""


def answer(message: Message, action: str, outcome: Outcome) -> None:
    """Reply with the outcome. It is dropped if the requester waits no longer."""
    failure = outcome.failure
    if failure is None:
        try:
            _reply(message, outcome, action)
        except DispatchFailed as error:
            failure = Failure(error.code, error.message)
        except (TypeError, ValueError, LimitExceeded) as error:
            failure = Failure(DISPATCH_CODE, f"the result of {action!r} cannot be sent: {error}")
    if failure is not None:
        message.reply(ServiceFailure(failure.code, failure.message, failure.debug_info))


def _reply(message: Message, outcome: Outcome, action: str) -> None:
    body = outcome.value if outcome.is_encoded else result_to_builtins(action, outcome.value)
    if outcome.headers:
        message.reply(body, DeliveryOptions(headers=Headers(outcome.headers)))
    else:
        message.reply(body)
