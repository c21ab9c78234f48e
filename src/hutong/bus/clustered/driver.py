"""A clustered bus: the local bus, the membership and the connections to other nodes, put together.

Strategy: the machine decides and this carries out, on one loop. Other nodes' consumers are receivers in the local bus's
registrations (`RemoteConsumers`), so a send to them goes to the outbox of their node like to a context. What comes from
another node is delivered like a local message, with a reply that leads back (`RemoteReply`).

Decides nothing.
"""

import itertools
import logging
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from hutong.bus.bus import EventBus
from hutong.bus.clustered import messages
from hutong.bus.clustered.connections import AcceptedConnections, OpenedConnections, PongFraming
from hutong.bus.clustered.figures import NodeTraffic, OtherNodeFigures
from hutong.bus.clustered.limits import ClusteredLimits
from hutong.bus.clustered.link import NodeLink, RemoteConsumers, RemoteReply, failed, remote_reply
from hutong.bus.clustered.machine import ClusterMachine
from hutong.bus.clustered.membership.port import Counts, Membership
from hutong.bus.clustered.permissions import EVERYTHING, ClusterRights
from hutong.bus.clustered.tls import ClusterCertificates
from hutong.bus.clustered.translation import FrameSender, frame_sender, message_of
from hutong.bus.clustered.usual_messages import UsualMessages
from hutong.bus.delivery.consumer import Consumer
from hutong.bus.envelope.message import REPLY_PREFIX, Message
from hutong.bus.errors import BUILT_IN_CODE, FailureType, ReplyError, carrying_failed
from hutong.bus.shared.port import EntryStore
from hutong.bus.waiting.promise import Promise, settle_all
from hutong.foundation.clock import Clock
from hutong.foundation.errors import HutongError, LimitExceeded, OwnerGone
from hutong.foundation.machine import Tick
from hutong.foundation.machine_host import MachineEntry, MachineHost
from hutong.foundation.timers import TimerWheel
from hutong.reactor.accept.acceptor import Acceptor, OpenSocket
from hutong.reactor.connector import Connector
from hutong.reactor.frames.framing import length_prefixed
from hutong.reactor.limits import ReactorLimits
from hutong.runtime.contexts.contexts import Context
from hutong.wire.vertx.cluster_frames import REFERENCE_HEADERS, ClusterFrame, encode_ping
from hutong.wire.vertx.cluster_nodes import NodeInfo
from hutong.wire.vertx.usual_frames import UsualFrame
from hutong.wire.vertx.wire_versions import VERSION_2, WireVersion, place_name

Entry: TypeAlias = MachineEntry[str, ClusterMachine]
CLOSE_GRACE_MS: Final = 1_000
_UUID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_log = logging.getLogger("hutong.bus")


class ClusteredBus:
    """One node's part in a cluster. `start` once, then `close` once, in a context whose loop is the bus's own."""

    def __init__(
        self,
        bus: EventBus,
        context: Context,
        node: str,
        membership: Membership,
        *,
        clock: Clock,
        wheel: TimerWheel,
        limits: ClusteredLimits | None = None,
        open_socket: OpenSocket = socket.socket,
        certificates: ClusterCertificates | None = None,
        rights: ClusterRights = EVERYTHING,
        wire: WireVersion = VERSION_2,
    ) -> None:
        """`node` is the id of this node, which no other may have. With `certificates` all connections are encrypted.

        `wire` is the version of all nodes of the cluster.
        """
        self._id = node
        self._wire = wire
        self._sender: FrameSender | None = None  # set with the name
        self._side = bus.remote_side
        self._context = context
        self._membership = membership
        self._limits = limits or ClusteredLimits()
        self._certificates = certificates
        self._rights = rights
        self._refused: set[str] = set()  # nodes whose messages were refused, and which the log has named
        self._loop = context.loop
        self._links: dict[str, NodeLink] = {}
        self._received: dict[str, NodeTraffic] = {}  # by node that has an entry
        self._usual = UsualMessages(self._side, self._links, rights, self._loop, self._receive)
        self._numbers = itertools.count(1)
        self._own: dict[Consumer, int] = {}  # numbers of consumers for all; changed with the registrations' lock
        self._unannounced: dict[int, list[Promise[None]]] = {}  # who waits for their registrations
        self._host: MachineHost[Entry, messages.Event, messages.Instruction] = MachineHost(
            clock, wheel, None, self._feed_entry
        )
        self._entry: Entry = self._host.put(MachineEntry(node, ClusterMachine(node, self._limits, rights)))
        self._is_closed = False
        reactor = replace(
            ReactorLimits(),
            frame_bytes_max=self._limits.frame_bytes_max,
            unsent_bytes_max=self._limits.unsent_bytes_max,
        )
        self._accepted = AcceptedConnections(None, self, wire)
        self._acceptor = Acceptor(
            self._loop,
            self._accepted,
            length_prefixed(),
            clock=clock,
            wheel=wheel,
            limits=reactor,
            open_socket=open_socket,
        )
        self._connector = Connector(
            self._loop, OpenedConnections(self), PongFraming, clock=clock, wheel=wheel, limits=reactor
        )
        # Otherwise the name is that of a place, which `join` says.
        if not wire.names_places:
            self._take_name(node)

    @property
    def node(self) -> str:
        """The name of this node among the others: its id or, in version 1, the place where they connect."""
        return self._entry.key

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Accept connections of other nodes. Returns what was bound. Raises OSError."""
        tls = None if self._certificates is None else self._certificates.accepting
        return await self._acceptor.listen(host, port, tls)

    async def join(self, info: NodeInfo) -> None:
        """Enter the cluster: afterwards all that is registered in it is known. Raises UsageError.

        `info` is where the other nodes connect.
        """
        if self._wire.names_places:
            self._take_name(place_name(info))
        await self._membership.start(self._id, info, self)
        # Afterwards: nothing can be announced before there is a session.
        self._side.listen(self)
        self._side.share(self._membership.entries)

    async def close(self) -> None:
        """Leave the cluster. Messages that are on their way are sent; requests that wait for other nodes fail."""
        self._side.listen(None)
        # First: the others then send nothing more to here.
        await self._membership.close()
        self._is_closed = True
        self._host.close()
        for address in self._entry.machine.placed_addresses:
            self._side.place(address, ())
        await self._connector.close(CLOSE_GRACE_MS)
        await self._acceptor.drain(CLOSE_GRACE_MS)
        for link in self._links.values():
            link.fail_all("this node has left the cluster")
        for waiting in self._unannounced.values():
            settle_all(waiting, OwnerGone("this node has left the cluster"))

    def _take_name(self, name: str) -> None:
        self._accepted.node = name
        self._sender = frame_sender(name, self._wire)
        self._entry = self._host.put(MachineEntry(name, ClusterMachine(name, self._limits, self._rights)))

    @property
    def entries(self) -> EntryStore:
        """The entries that all nodes share, once it has joined."""
        return self._membership.entries

    def figures(self) -> list[OtherNodeFigures]:
        """Those of the other nodes that have an entry; that which was known first comes first. On the loop."""
        found: list[OtherNodeFigures] = []
        for node, received in self._received.items():
            link = self._links.get(node)
            # Nothing was sent to it, and nobody is registered there.
            sent, sizes = (NodeTraffic(), (0, 0)) if link is None else (link.sent, link.outbox.sizes)
            is_connected = link is not None and link.peer is not None
            traffic = (sent.messages_total, sent.bytes_total, received.messages_total, received.bytes_total)
            found.append(OtherNodeFigures(node, is_connected, *traffic, *sizes))
        return found

    @property
    def placed(self) -> Mapping[str, Mapping[str, int]]:
        """The other nodes that receive at each address, with the number of their consumers. On the loop."""
        return self._entry.machine.placed

    def check_invariants(self) -> None:
        self._entry.machine.check_invariants()
        for node, link in self._links.items():
            # Otherwise a node that has gone would leave its link behind.
            assert self._entry.machine.state_of(node) is not None, f"nobody knows node {node}"
            link.check_invariants()

    # -- news of the membership

    def nodes_changed(self, nodes: Mapping[str, NodeInfo]) -> None:
        others = [node for node in nodes if node != self.node]
        for gone in self._received.keys() - set(others):
            del self._received[gone]
            self._refused.discard(gone)
        for node in others:
            self._received.setdefault(node, NodeTraffic())
        self._feed(messages.ClusterNodesChanged(nodes, self._host.now_ms))

    def registrations_changed(self, address: str, counts: Counts) -> None:
        self._feed(messages.RegistrationsChanged(address, counts))

    def announced(self, number: int) -> None:
        # None where it has been withdrawn meanwhile, and where it was announced before the loss of a session.
        settle_all(self._unannounced.pop(number, []), None)

    # -- consumers of this node, with the registrations' lock, on any thread

    def consumer_added(self, consumer: Consumer) -> None:
        """Raises UsageError for an address that the membership cannot keep."""
        # As in Vert.x, nothing of it is written: other nodes must not choose it.
        if consumer.local_only or not self._rights.may_send_here(consumer.address):
            return
        self._membership.check(consumer.address)
        number = self._own[consumer] = next(self._numbers)
        self._post(partial(self._announce, consumer.address, number))

    def consumer_removed(self, consumer: Consumer) -> None:
        # None for one that was not announced.
        number = self._own.pop(consumer, None)
        if number is not None:
            self._post(partial(self._withdraw, consumer.address, number))

    def await_announced(self, consumer: Consumer, promise: Promise[None]) -> None:
        number = self._own.get(consumer)
        # Others may not send to it, so there is nothing to wait for.
        if number is None:
            promise.resume(None)
        else:
            self._post(partial(self._await_announced, number, promise))

    def _post(self, work: Callable[[], object]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work)

    def _announce(self, address: str, number: int) -> None:
        self._unannounced[number] = []
        self._membership.announce(address, number)

    def _withdraw(self, address: str, number: int) -> None:
        unregistered = OwnerGone(f"the consumer of {address!r} has unregistered")
        settle_all(self._unannounced.pop(number, []), unregistered)
        self._membership.withdraw(address, number)

    def _await_announced(self, number: int, promise: Promise[None]) -> None:
        waiting = self._unannounced.get(number)
        if self._is_closed:
            promise.fail(OwnerGone("this node has left the cluster"))
        elif waiting is None:
            promise.resume(None)
        else:
            waiting.append(promise)

    # -- messages of other nodes

    def frame_received(self, frame: ClusterFrame, size: int) -> None:
        self._count(frame.sender, 1, size)
        self._receive(frame)

    def usual_received(self, node: str, frames: Sequence[UsualFrame], size: int) -> None:
        self._count(node, len(frames), size)
        self._usual.take(node, frames)

    def _count(self, node: str, count: int, size: int) -> None:
        received = self._received.get(node)
        # A stranger may claim any id, and each counted one costs memory.
        if received is not None:
            received.messages_total += count
            received.bytes_total += size

    def _receive(self, frame: ClusterFrame) -> None:
        reply = None if frame.reply_address is None else self._reply_to(frame, frame.reply_address)
        is_reply = frame.address.startswith(REPLY_PREFIX)
        # Before its codec, which may be a user's. Replies are of requests that were sent from here.
        if not is_reply and not self._rights.may_send_here(frame.address):
            self._refuse(frame, reply)
            return
        try:
            message = message_of(frame, self._side, reply)
        except Exception as error:  # noqa: BLE001  # a codec is other people's code, and the frames behind go on
            self._undeliverable(frame, reply, error)
            return
        if is_reply:
            self._receive_reply(frame, message)
            return
        try:
            is_delivered = self._side.receive(message)
        except LimitExceeded as error:
            self._undeliverable(frame, reply, error)
            return
        # The sender did not know yet that the last consumer has gone.
        if not is_delivered and reply is not None:
            reply.fail_without_handlers()

    def _reply_to(self, frame: ClusterFrame, reply_address: str) -> RemoteReply:
        """An answer will go there. A node whose entry is not known is waited for, and then forgotten."""
        link = self._links.get(frame.sender)
        if link is None:
            link = self._link_to(frame.sender)
            self._wanted(link)
        return remote_reply(self._side.bus, link, reply_address, frame.address)

    def _receive_reply(self, frame: ClusterFrame, message: Message) -> None:
        """Take a reply, of the node that was asked. Any other is dropped: its request is over, or was never its own."""
        number = frame.address[len(REPLY_PREFIX) :]
        link = self._links.get(frame.sender)
        # The number came over the network: `int` takes more than digits, and long ones take long.
        if link is None or not (len(number) < 20 and number.isascii() and number.isdigit()):
            return
        awaited = link.take_awaited(int(number))
        if awaited is not None:
            for name, address in frame.headers:
                # Nothing else: no node may place itself at an address that others listen at.
                if name in REFERENCE_HEADERS and _UUID.fullmatch(address):
                    self._feed(messages.ReferenceReceived(address, frame.sender, self._host.now_ms))
            self._side.receive_reply(awaited, message)

    def _refuse(self, frame: ClusterFrame, reply: RemoteReply | None) -> None:
        text = f"other nodes may not send to {frame.address!r} at node {self.node}"
        if reply is not None:
            reply.fail(ReplyError(FailureType.ERROR, BUILT_IN_CODE, text))
        # Once for each node of the cluster: the log must not grow with what they send.
        if frame.sender in self._received and frame.sender not in self._refused:
            self._refused.add(frame.sender)
            _log.warning("%s, and node %s does", text, frame.sender)

    def _undeliverable(self, frame: ClusterFrame, reply: RemoteReply | None, error: Exception) -> None:
        failure = carrying_failed(f"the message to {frame.address!r}", error)
        if reply is not None:
            reply.fail(failure)
        # The reply itself cannot be read: its requester is here.
        elif frame.address.startswith(REPLY_PREFIX):
            self._receive_reply(frame, failed(frame.address, failure))
        else:
            _log.warning("%s (from node %s)", failure, frame.sender)

    # -- connections

    def pong_received(self, link: NodeLink) -> None:
        self._feed(messages.PongReceived(link.node, self._host.now_ms))

    def connection_ended(self, link: NodeLink) -> None:
        link.peer = None
        link.outbox.hold()
        self._feed(messages.NodeConnectionLost(link.node, self._host.now_ms))

    def _link_to(self, node: str) -> NodeLink:
        """The link to a node, also to one whose entry is not known (yet)."""
        link = self._links.get(node)
        if link is None:
            assert self._sender is not None, "nobody is known before this node has a name"
            link = self._links[node] = NodeLink(node, self._sender, self._loop, self._limits, self._wanted)
        return link

    def _wanted(self, link: NodeLink) -> None:
        if self._is_closed or self._links.get(link.node) is not link:
            link.fail_all("it has left the cluster")
        else:
            self._feed(messages.Wanted(link.node, self._host.now_ms))

    def _begin_to_connect(self, node: str, info: NodeInfo) -> None:
        link = self._link_to(node)
        # Numbered now: the node may be forgotten before the coroutine begins.
        link.attempt += 1
        self._context.run(self._connect, (link, link.attempt, info))

    async def _connect(self, begun: tuple[NodeLink, int, NodeInfo]) -> None:
        link, attempt, info = begun
        if link.attempt != attempt:
            return
        try:
            tls = None if self._certificates is None else self._certificates.opening()
            timeout_ms = self._limits.connect_ms_max
            peer = await self._connector.connect(info.host, info.port, tls=tls, timeout_ms=timeout_ms)
        except (OSError, HutongError) as error:
            if link.attempt == attempt:
                reason = f"{info.host}:{info.port} cannot be connected to: {error}"
                self._feed(messages.ConnectFailed(link.node, reason, self._host.now_ms))
            return
        # Given up meanwhile.
        if link.attempt != attempt:
            peer.close()
            return
        link.peer, peer.session = peer, link
        peer.sending_changed = partial(self._sending_changed, link)
        self._feed(messages.Connected(link.node, self._host.now_ms))

    def _sending_changed(self, link: NodeLink, is_paused: bool) -> None:
        # Messages then wait in the outbox, whose bound the senders feel, and not in the connection, which has none.
        if is_paused:
            link.outbox.hold()
        elif link.peer is not None:
            link.outbox.release()

    # -- the machine

    def _feed_entry(self, entry: Entry, event: Tick) -> None:
        self._feed(event)

    def _feed(self, event: messages.Event) -> None:
        # Connections that are closed with this node report their ends.
        if self._is_closed:
            return
        for instruction in self._host.handle(self._entry, event):
            self._carry_out(instruction)

    def _carry_out(self, instruction: messages.Instruction) -> None:
        match instruction:
            case messages.PlaceRemote(address, turns):
                receivers = tuple([RemoteConsumers(address, self._link_to(node), count) for node, count in turns])
                self._side.place(address, receivers)
            case messages.Connect(node, info):
                self._begin_to_connect(node, info)
            case messages.Release(node):
                self._links[node].outbox.release()
            case messages.Ping(node):
                peer = self._links[node].peer
                if peer is not None:
                    peer.push([encode_ping(node, self._wire)])
            case messages.DisconnectNode(node):
                self._disconnect(self._links[node])
            case messages.Fail(node, reason):
                # A node that nothing was sent to has no link.
                if node in self._links:
                    self._links[node].fail_all(reason)
            case messages.Forget(node):
                self._links.pop(node, None)

    def _disconnect(self, link: NodeLink) -> None:
        # An attempt that is under way finds another number, and closes what it opens.
        link.attempt += 1
        peer, link.peer = link.peer, None
        link.outbox.hold()
        if peer is not None:
            peer.session = None
            peer.close()
