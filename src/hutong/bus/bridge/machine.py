"""One client's session on a bridge: what it asked for and what came for it go in, what is to be done comes out.

Strategy: the session knows at which addresses the client listens, how many of its requests are open and which messages
it may still answer; from that, the permissions and the limits it decides everything, so that both bridges and all their
refusals are tested without a socket, a bus or a clock. It does not wait: the driver parks what waits and reports how
that ended.

A client may answer every message it was given, without a permission, and only such messages: the reply addresses of
others are theirs (`REPLY_PREFIX`), even where a permission is as wide as `.*`.

Knows nothing of the event bus, of time, or of how frames travel.
"""

from typing import Final

from hutong.bus.bridge import messages
from hutong.bus.bridge.limits import BridgeLimits
from hutong.bus.bridge.messages import Event, Headers, Instruction
from hutong.bus.bridge.permissions import Permissions
from hutong.wire.vertx.client_frames import ClientFrame, FrameKind, Malformed
from hutong.wire.vertx.codes import Code, Dialect
from hutong.wire.vertx.server_frames import PONG, FrameEncoder, Unencodable, encode_error, encode_failure

REPLY_PREFIX: Final = "__hutong.reply."
"""The prefix of the bus's own reply addresses."""

_SEND, _PUBLISH, _REGISTER, _UNREGISTER, _PING = FrameKind  # looking a member up costs more than the rest of a test


class BridgeSession:
    """One client. `handle` an event, carry out the instructions, and so on until its connection ends."""

    def __init__(
        self, dialect: Dialect, permissions: Permissions, limits: BridgeLimits, encoder: FrameEncoder | None = None
    ) -> None:
        """`encoder` may be shared by all clients whose messages have bodies that nobody changes."""
        self._dialect = dialect
        self._encoder = encoder or FrameEncoder(dialect)
        self._permissions = permissions
        self._limits = limits
        self._numbers: dict[str, list[int]] = {}  # registrations by address, oldest first; never an empty list
        self._addresses: dict[int, str] = {}  # the same by number
        self._next_number = 1
        self._owed: set[str] = set()  # reply addresses of messages that the client may answer
        self.requests_open = 0
        self.is_paused = False  # registrations wait until the client reads
        self.is_closing = False  # Close was returned: nothing is done any more

    @property
    def registrations(self) -> int:
        return len(self._addresses)

    def handle(self, event: Event) -> list[Instruction]:
        """The instructions that follow from the event. Raises only for faults of ours."""
        # Nearly every event is one of these four, so they are asked for first.
        if isinstance(event, ClientFrame):
            return self._handle_frame(event)
        if isinstance(event, messages.Delivered | messages.Answered | messages.AnswerFailed):
            return self._handle_arrival(event)
        match event:
            case Malformed(code, address, reply_address):
                return self._refuse(code, address, reply_address)
            case messages.Denied(frame, code):
                return self._refuse(code, frame.address, frame.reply_address)
            case messages.RegistrationFailed(number):
                return self._refuse(Code.REGISTRATION_FAILURE, self._forget(number))
            case messages.ReplyExpired(reply_address):
                self._owed.discard(reply_address)
                return []
            case _:
                return self._handle_connection_event(event)

    def check_invariants(self) -> None:
        assert sum(len(numbers) for numbers in self._numbers.values()) == len(self._addresses)
        assert all(number in self._numbers[address] for number, address in self._addresses.items())
        assert len(self._addresses) <= self._limits.handlers_max
        assert len(self._owed) <= self._limits.replies_owed_max
        assert 0 <= self.requests_open <= self._limits.requests_open_max

    # What a client asks for.

    def _handle_frame(self, frame: ClientFrame) -> list[Instruction]:
        # The error of the close is the client's last frame; what it had sent behind the fault is not executed.
        if self.is_closing:
            return []
        kind = frame.kind
        if kind is _PING:
            return [messages.Write(PONG)]
        # Before anything else, so that no branch below can forget a permission or a bound.
        code = self._refusal_of(frame)
        if code is not None:
            return self._refuse(code, frame.address, frame.reply_address)
        if kind is _REGISTER:
            return self._register(frame.address)
        if kind is _UNREGISTER:
            return self._unregister(frame.address)
        return self._send(frame)

    def _refusal_of(self, frame: ClientFrame) -> Code | None:
        """The reason for which this frame is refused, None where it is not."""
        limits = self._limits
        if len(frame.address) > limits.address_characters_max:
            return Code.ADDRESS_TOO_LONG
        if frame.reply_address is not None and len(frame.reply_address) > limits.reply_address_characters_max:
            return Code.INVALID_REPLY_ADDRESS
        if not self._is_allowed(frame):
            return Code.ACCESS_DENIED
        # A failure is only ever an answer: without a request there is nobody whom it could fail.
        if frame.failure is not None and frame.address not in self._owed:
            return Code.INVALID_FAILURE
        return None

    def _is_allowed(self, frame: ClientFrame) -> bool:
        kind, address = frame.kind, frame.address
        # It ends only this client's own registration, which was permitted when it was made.
        if kind is _UNREGISTER:
            return True
        # An answer needs no permission, as in Vert.x: the message that asks for it was permitted.
        if kind is not _REGISTER and address in self._owed:
            return True
        if address.startswith(REPLY_PREFIX):
            return False
        return self._permissions.allows_out(address) if kind is _REGISTER else self._permissions.allows_in(address)

    def _send(self, frame: ClientFrame) -> list[Instruction]:
        """A message, a request, or the answer to something the client was given (also if published, as in Vert.x)."""
        is_answer = frame.address in self._owed
        # A publication or a failure has no reply, even where the frame names an address for it.
        is_request = frame.reply_address is not None and frame.failure is None and frame.kind is _SEND
        if is_request and self.requests_open >= self._limits.requests_open_max:
            return self._fail_request(frame, f"requests_open_max is {self._limits.requests_open_max} for one client")
        self.requests_open += is_request
        # Once only: a second frame to this address needs a permission, which nobody has for a reply address.
        if is_answer:
            self._owed.remove(frame.address)
            return [messages.BridgeReply(frame, is_request)]
        return [messages.BridgeRequest(frame)] if is_request else [messages.Send(frame)]

    def _fail_request(self, frame: ClientFrame, text: str) -> list[Instruction]:
        assert frame.reply_address is not None
        return [messages.Write(encode_failure(self._dialect, frame.reply_address, frame.address, -1, "ERROR", text))]

    def _register(self, address: str) -> list[Instruction]:
        if len(self._addresses) >= self._limits.handlers_max:
            return self._refuse(Code.MAX_HANDLERS_REACHED, address)
        # SockJS clients dispatch by address themselves, so one registration serves all their handlers.
        if self._dialect is Dialect.SOCKJS and address in self._numbers:
            return self._refuse(Code.ALREADY_REGISTERED, address)
        # Numbers are never used again: a message under way to an ended registration meets no newer one.
        number = self._next_number
        self._next_number += 1
        self._addresses[number] = address
        self._numbers.setdefault(address, []).append(number)
        return [messages.Register(number, address)]

    def _unregister(self, address: str) -> list[Instruction]:
        """The oldest registration there. SockJS clients get no error if there was none, as in Vert.x."""
        numbers = self._numbers.get(address)
        if numbers is None:
            return self._refuse(Code.UNKNOWN_ADDRESS, address) if self._dialect is Dialect.TCP else []
        number = numbers[0]
        self._forget(number)
        return [messages.Unregister(number)]

    def _forget(self, number: int) -> str:
        address = self._addresses.pop(number)
        numbers = self._numbers[address]
        numbers.remove(number)
        if not numbers:  # addresses are the client's choice, so empty lists would pile up
            del self._numbers[address]
        return address

    # What comes for a client.

    def _handle_arrival(
        self, event: messages.Delivered | messages.Answered | messages.AnswerFailed
    ) -> list[Instruction]:
        if isinstance(event, messages.AnswerFailed):
            self.requests_open -= 1
            return [self._failure_of(event, event.failure_code, event.failure_type, event.message)]
        if isinstance(event, messages.Delivered):
            address = self._addresses.get(event.number)
            if address is None or self.is_closing:  # it has unregistered while this was on its way
                return []
            given = self._give_to_client(address, event.body, event.headers, event.reply_address, is_send=event.is_send)
        else:
            self.requests_open -= 1
            given = self._give_to_client(event.reply_address, event.body, event.headers, event.answer_address)
        return self._report_undelivered(event, given) if isinstance(given, str) else given

    def _report_undelivered(self, event: messages.Delivered | messages.Answered, reason: str) -> list[Instruction]:
        """Report a message that cannot be given to the client, to it and to the sender that waits for an answer."""
        if isinstance(event, messages.Delivered):
            report, unanswered = self._refuse(Code.NOT_JSON), event.reply_address
        else:
            report, unanswered = [self._failure_of(event, -1, "ERROR", Code.NOT_JSON)], event.answer_address
        # One who asks must not wait for an answer that the client can never give.
        return report if unanswered is None else [*report, messages.FailDelivery(unanswered, reason)]

    def _give_to_client(
        self, address: str, body: object, headers: Headers, answer_address: str | None, *, is_send: bool = True
    ) -> list[Instruction] | str:
        """The instruction that gives the client this message, or the failure that prevents it."""
        # Each owed answer is a parked wait of the node, which a client that never answers could pile up.
        if answer_address is not None and len(self._owed) >= self._limits.replies_owed_max:
            return f"replies_owed_max is {self._limits.replies_owed_max} for one client"
        try:
            frame = self._encoder.encode(address, body, headers, answer_address, is_send=is_send)
        except Unencodable as error:
            return str(error)
        if answer_address is None:
            return [messages.Write(frame)]
        # Parked before the frame is written: the answer may come back in the same loop iteration.
        self._owed.add(answer_address)
        return [messages.OweReply(answer_address), messages.Write(frame)]

    def _failure_of(
        self, event: messages.Answered | messages.AnswerFailed, code: int, kind: str, text: str
    ) -> messages.Write:
        return messages.Write(
            encode_failure(self._dialect, event.reply_address, event.source_address, code, kind, text)
        )

    # Its connection.

    def _handle_connection_event(
        self, event: messages.SendingPaused | messages.SendingResumed | messages.TooSlow | messages.FrameTooLarge
    ) -> list[Instruction]:
        if self.is_closing:
            return []
        match event:
            case messages.SendingPaused():
                self.is_paused = True
                return [messages.PauseAll()]
            case messages.SendingResumed():
                self.is_paused = False
                return [messages.ResumeAll()]
            case messages.TooSlow():
                code = Code.SLOW_CLIENT
            case messages.FrameTooLarge():
                code = Code.FRAME_TOO_LARGE
        # The error first: the client learns the reason before its connection ends.
        self.is_closing = True
        return [*self._refuse(code), messages.Close(code)]

    def _refuse(self, code: Code, address: str = "", reply_address: str | None = None) -> list[Instruction]:
        return [messages.Write(encode_error(self._dialect, code, address, reply_address), code)]
