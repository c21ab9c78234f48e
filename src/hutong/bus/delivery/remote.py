"""The side of a bus that other nodes are at: their registrations, the messages that came from them, and codecs.

Strategy: a bus asks nobody which nodes there are. Receivers of other nodes are in its registrations like consumers, so
a send to one costs what a local send costs, and a bus without other nodes has nothing to ask for.

Knows no network and no cluster: `bus/clustered` is one.
"""

from typing import Any, Protocol, cast

from hutong.bus.delivery.consumer import Consumer
from hutong.bus.delivery.publication import deliver_copies
from hutong.bus.delivery.registrations import Among, MessageReceiver, RegistrationListener, Registrations, Turn
from hutong.bus.delivery.replies import InterceptingBus, carry_reply
from hutong.bus.envelope.codecs import Codecs, MessageCodec
from hutong.bus.envelope.message import Message
from hutong.bus.envelope.reply import Reply, ReplyRoute
from hutong.bus.errors import ReplyError
from hutong.bus.shared.port import EntryStore
from hutong.bus.shared.shared import SharedData
from hutong.bus.waiting.promise import Promise
from hutong.foundation.errors import OwnerGone
from hutong.foundation.waiting.numbered import Numbers


class ReceivingBus(InterceptingBus, ReplyRoute, Protocol):
    """The services of a bus for what came from another node."""

    shared: SharedData


class RemoteSide:
    """Made by `EventBus.remote_side`. Any thread may call."""

    def __init__(self, bus: ReceivingBus, registrations: Registrations, codecs: Codecs, numbers: Numbers) -> None:
        self.bus = bus
        self._registrations = registrations
        self._codecs = codecs
        self._numbers = numbers
        self._offered_rounds = registrations.offered_rounds

    def listen(self, listener: RegistrationListener | None) -> None:
        """Tell the listener of every consumer: of those that there are now, and of each that comes or goes."""
        with self._registrations.lock:
            self._registrations.listener = listener
            if listener is not None:
                for receivers in self._registrations.by_address.values():
                    for receiver in receivers:
                        if not receiver.is_remote:
                            listener.consumer_added(receiver)  # type: ignore[arg-type]  # a Consumer, then

    def await_announced(self, consumer: Consumer, promise: Promise[None]) -> None:
        """Resume the promise once other nodes can find the consumer: at once where there are none."""
        registrations = self._registrations
        with registrations.lock:
            # Asked under the lock: it is removed from the registrations later than it says that it is not there.
            if consumer not in registrations.by_address.get(consumer.address, ()):
                promise.fail(OwnerGone(f"the consumer of {consumer.address!r} has unregistered"))
            elif registrations.listener is None or consumer.local_only:
                promise.resume(None)
            else:
                registrations.listener.await_announced(consumer, promise)

    def share(self, store: EntryStore) -> None:
        """Have the counters, locks and maps of the bus be those of all nodes that use the store."""
        self.bus.shared.use(store)

    def place(self, address: str, receivers: "tuple[MessageReceiver, ...]") -> None:
        """Have these receivers of other nodes at the address, and no others of other nodes."""
        self._registrations.place_remote(address, receivers)

    def receive(self, message: Message) -> bool:
        """Deliver a message from another node. False where nobody here may get it. Raises LimitExceeded."""
        address = message.address
        # Every consumer that others may reach; the sender has sent one frame for all of them.
        if not message.is_send:
            receivers = self._registrations.receivers_of(address, Among.OFFERED)
            deliver_copies(message, receivers, self._codecs)
            return bool(receivers)
        turn = self.turn(address)
        if turn is None:
            return False
        deliver, context = turn
        context.run(deliver, message)
        return True

    def turn(self, address: str) -> Turn | None:
        """The next receiver of a message from another node; None where nobody here may get it."""
        around = self._offered_rounds.get(address) or self._registrations.narrow_round_of(address, Among.OFFERED)
        return None if around is None else next(around)

    def receive_reply(self, reply: Reply, message: Message) -> None:
        """Deliver what another node has replied. Dropped if it is not awaited any more."""
        # The usual way of `carry_reply`, without its calls.
        if self.bus.inbound_chain or isinstance(message.body, ReplyError):
            carry_reply(self.bus, reply, message)
        else:
            reply.resume(message)

    def awaited(self, number: int) -> Reply | None:
        """The reply that is awaited in this process under the number."""
        return cast("Reply | None", self._numbers.find(number))

    def codec(self, name: str) -> MessageCodec[Any, Any]:
        """Raises ValueError if there is none."""
        return self._codecs.named(name)
