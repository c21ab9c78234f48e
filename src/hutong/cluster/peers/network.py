"""All links of one node: made, watched, used and ended.

    network = PeerNetwork(loop, clock=clock, wheel=wheel, identity=identity, secret=secret, listener=listener)
    host, port = await network.listen("10.0.0.1", 9190)       # before the address is registered
    network.set_addresses({2: ("10.0.0.2", 9190, incarnation)})   # again whenever a registration changes
    network.send(2, message)
    network.ask(2, question, 1_000, then)
    await network.close()

Strategy: of each pair of nodes the one with the lower number dials. A connection becomes a link by the handshake. A
newer link with a node replaces the older one, whose end is reported first. The end of a link is reported at once,
without a judgement; that the process is gone is reported once its address refuses, which is asked at once as well. A
node whose registration is not known here may link all the same: registrations do not reach all nodes at one time.

Everything is on the loop's thread. Knows nothing of what is sent.
"""

import asyncio
import errno
import logging
import os
import secrets
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from hutong.cluster.peers.endpoint import PeerEndpoint
from hutong.cluster.peers.faults import FaultLog, sentence_of
from hutong.cluster.peers.figures import PeerFigures
from hutong.cluster.peers.greeting import Greeting, GreetingServices
from hutong.cluster.peers.handshake.machine import DialledHandshake, DiallingHandshake
from hutong.cluster.peers.handshake.messages import NONCE_BYTES, HandshakeRefused, RefusalReason
from hutong.cluster.peers.identity import PeerIdentity
from hutong.cluster.peers.limits import PeerLimits
from hutong.cluster.peers.link import LinkEnd, LinkServices, PeerLink
from hutong.cluster.peers.paths import PeerPaths
from hutong.cluster.peers.port import PeerAsked, PeerListener, PeerMessage
from hutong.cluster.peers.probe import AddressProbe
from hutong.cluster.peers.questions import answering, check_question_code
from hutong.cluster.peers.reaching import PeerAddress, Reaching, ReachingServices
from hutong.foundation.clock import Clock
from hutong.foundation.errors import ExitCode, HutongError, NothingSent, OwnerGone, ProtocolError, UsageError
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.reactor.accept.acceptor import OpenSocket
from hutong.reactor.accept.exposure import is_local
from hutong.reactor.connections.handler import Peer
from hutong.reactor.figures import ReactorFigures
from hutong.remoting.channels.answers import Answer
from hutong.remoting.channels.channel import Channel
from hutong.replication.replica_messages import ReplicaMessage
from hutong.wire.rocketmq.command import Command

_log = logging.getLogger("hutong.cluster.peers")
_DEFAULT_LIMITS: Final = PeerLimits()
CLOCK_DIFFERENCE_MS_MIN: Final = 10_000
"""Of two nodes, for people to hear of it. A handshake takes less, unless a machine is out of breath."""


@dataclass(frozen=True, slots=True)
class PeerTls:
    """Both contexts demand a certificate of the other side."""

    server: ssl.SSLContext
    client: ssl.SSLContext


class _Known:
    """The knowledge of one other node."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.figures = PeerFigures()
        self.link: PeerLink | None = None
        self.heard_ms: int | None = None  # on links that are over
        self.answered_ms: int | None = None  # the same
        self.address: PeerAddress | None = None
        self.reaching: Reaching | None = None
        self.is_gone_reported = False


class PeerNetwork:
    """Implements `Peers`. `listener` hears of links; `figures` are by node."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        clock: Clock,
        wheel: TimerWheel,
        identity: PeerIdentity,
        secret: bytes | None,
        listener: PeerListener,
        tls: PeerTls | None = None,
        open_socket: OpenSocket = socket.socket,
        limits: PeerLimits = _DEFAULT_LIMITS,
        chance: Callable[[], float] | None = None,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
        paths: PeerPaths | None = None,
    ) -> None:
        """Without a `secret` (None) nodes link on this machine alone. Raises UsageError for TLS that is not mutual."""
        if tls is not None and {tls.server.verify_mode, tls.client.verify_mode} != {ssl.CERT_REQUIRED}:
            raise UsageError("TLS between nodes needs certificates of both sides: name their authority.")
        self.identity = identity
        self.listener = listener
        self._loop = loop
        self._limits = limits
        self._secret = secret
        self._tls = tls
        self._random_bytes = random_bytes
        self._clock = clock
        self._known: dict[int, _Known] = {}
        self._closed_news: list[int] = []  # nodes whose links ended, and whose end is not reported yet
        self._is_closed = False
        self._faults = FaultLog(limits.faults_remembered_max)
        self._endpoint = PeerEndpoint(
            loop, clock=clock, wheel=wheel, limits=limits, open_socket=open_socket, accepted=self._accepted
        )
        self._probe = AddressProbe(loop, clock=clock, wheel=wheel, timeout_ms=limits.connect_ms_max)
        self._greetings = GreetingServices(clock, wheel, limits, self, self._endpoint.cut)
        self._links = LinkServices(clock, wheel, limits, loop.call_soon, self._link_ended, self._was_told)
        chance = chance or Random().random
        self._reachings = ReachingServices(loop, clock, wheel, limits, chance)
        self._paths = paths
        if paths is not None:
            paths.watch(self._cut)

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Accept links; port 0 takes a free one. Returns address and port.

        Raises OSError where it cannot be bound, and UsageError for a network without a secret.
        """
        if not self._may_use(host):
            raise UsageError(
                f"The nodes' listener at {host}:{port} would be open to the network without a cluster secret: anyone "
                "on it could act as a node. Give all nodes one secret, or listen on 127.0.0.1.",
                ExitCode.CONFIG,
            )
        if self._tls is None and not is_local(host):
            _log.warning(
                "Links between nodes at %s:%d have no TLS: anyone on the network can read all that passes.",
                host,
                port,
            )
        tls = None if self._tls is None else self._tls.server
        return await self._endpoint.acceptor.listen(host, port, tls)

    def set_addresses(self, addresses: Mapping[int, tuple[str, int, int]]) -> None:
        """Set host, port and incarnation of each other node that is registered. This node's own are passed over.

        A node that is no longer there is not dialled any more; a link with it goes on until it ends.
        """
        if self._is_closed:
            return
        for node, known in self._known.items():
            if node not in addresses and known.address is not None:
                self._forget_address(known)
        for node, (host, port, incarnation) in addresses.items():
            address = PeerAddress(host, port, incarnation)
            if node != self.identity.node and self._know(node).address != address:
                self._set_address(self._know(node), address)

    async def close(self) -> None:
        """End all links, which the listener hears of; what is ready is sent, within `close_ms_max`."""
        self._is_closed = True
        tasks = []
        for known in list(self._known.values()):
            if known.reaching is not None and (task := known.reaching.close()) is not None:
                tasks.append(task)
            if known.link is not None:
                known.link.end(LinkEnd.CLOSED)
        self._report_closed()
        await self._endpoint.close(self._limits.close_ms_max)
        await self._probe.close()
        if tasks:
            await asyncio.wait(tasks)

    # Peers.

    def is_open(self, node: int) -> bool:
        known = self._known.get(node)
        return known is not None and known.link is not None

    def send(self, node: int, message: ReplicaMessage) -> None:
        known = self._known.get(node)
        if known is not None and known.link is not None:
            known.link.send(message)

    def ask(self, node: int, question: PeerMessage, timeout_ms: int, then: Continuation[PeerMessage]) -> None:
        """See `Peers`. `then` is called in a later iteration of the loop; LimitExceeded for one question too many.

        Raises ValueError for a code that no question has, or fields that cannot be sent.
        """
        known = self._known.get(node)
        if known is None or known.link is None:
            check_question_code(question.code)
            self._loop.call_soon(then, NothingSent(f"there is no link with node {node}"))
        else:
            known.link.ask(question, timeout_ms, then)

    def register(self, code: int, asked: PeerAsked) -> None:
        check_question_code(code)
        self._endpoint.register(code, partial(self._asked, asked))

    def heard_ms(self, node: int) -> int | None:
        known = self._known.get(node)
        if known is None:
            return None
        return known.heard_ms if known.link is None else known.link.heard_ms

    def answered_ms(self, node: int) -> int | None:
        known = self._known.get(node)
        if known is None:
            return None
        answered_ms = None if known.link is None else known.link.answered_ms
        return known.answered_ms if answered_ms is None else answered_ms

    # What operators and replicas may ask besides.

    def unsent_bytes(self, node: int) -> int:
        """The bytes that the node has not taken yet; 0 without a link."""
        known = self._known.get(node)
        return 0 if known is None or known.link is None else known.link.unsent_bytes

    @property
    def figures(self) -> Mapping[int, PeerFigures]:
        """By node, of all that were ever known."""
        return {node: known.figures for node, known in self._known.items()}

    @property
    def reactor_figures(self) -> ReactorFigures:
        """Of the accepted connections."""
        return self._endpoint.acceptor.figures

    # For greetings.

    def check_partner(self, greeting: Greeting) -> None:
        """See `GreetingOwner`. Of two processes with one number, the one that is registered keeps its link."""
        partner = greeting.partner
        # Before the last word: else the other side has a link for a moment, again and again, and takes this node for
        # one that it reaches.
        if not self._is_path_open(partner.node):
            raise OwnerGone(f"the way to node {partner.node} is cut")
        known = self._known.get(partner.node)
        if known is None or known.link is None or known.address is None:
            return
        linked, registered = known.link.partner.incarnation, known.address.incarnation
        # A link that falls silent is one whose process may be gone, and this may be the next process.
        is_alive = self._clock.monotonic_ms() - known.link.heard_ms <= 2 * self._limits.heartbeat_ms
        if partner.incarnation != linked == registered and is_alive:
            raise HandshakeRefused(RefusalReason.OTHER_LIFE)

    def greeted(self, greeting: Greeting) -> None:
        channel = self._endpoint.channel_of(greeting.peer)
        if channel is None or self._is_closed or not self._is_path_open(greeting.partner.node):
            greeting.peer.close()
            return
        partner = greeting.partner
        known = self._know(partner.node)
        if known.link is not None:
            known.link.end(LinkEnd.REPLACED)
        # The end of the one before is news, too, where this was called amid a send.
        self._report_closed()
        if known.reaching is not None:
            known.reaching.linked()
        self._report_other_life(known, partner)
        known.is_gone_reported = False
        self._faults.forget(_name_of(partner.node))
        self._compare_clocks(partner.node, greeting.handshake.their_clock_ms)
        words = "Linked with %s (Hutong %s) by version %s of the protocol between nodes."
        _log.info(words, _name_of(partner.node), partner.version, greeting.handshake.protocol)
        known.link = link = PeerLink(partner, channel, known.figures, self._links)
        greeting.peer.session = link
        link.begin()
        self.listener.link_opened(partner.node, partner.incarnation)

    def greeting_failed(self, greeting: Greeting, error: HutongError) -> None:
        if self._is_closed:
            return
        claimed, node = greeting.handshake.claimed, greeting.to_node
        known = None if node is None else self._known.get(node)
        if isinstance(error, HandshakeRefused):
            who = _name_of(claimed.node if claimed is not None else -1) if node is None else _name_of(node)
            sentence = f"No link with {who} at {greeting.place}: {sentence_of(error)}."
            self._faults.report(logging.WARNING, who, error.reason.name, sentence)
        elif node is not None:
            self._report_unreachable(node, f"{greeting.place}: {error}")
        elif isinstance(error, ProtocolError):
            sentence = f"{greeting.peer.address} has connected to the listener for nodes, and is none: {error}."
            self._faults.report(logging.INFO, greeting.peer.address, "ProtocolError", sentence)
        if known is not None and known.reaching is not None and known.link is None:
            known.reaching.try_later()

    # For links.

    def _link_ended(self, link: PeerLink, reason: LinkEnd) -> None:
        node = link.partner.node
        known = self._known[node]
        known.link, known.heard_ms = None, link.heard_ms
        known.answered_ms = known.answered_ms if link.answered_ms is None else link.answered_ms
        known.figures.silent_total += reason is LinkEnd.SILENT
        known.figures.unsent_total += reason is LinkEnd.UNSENT
        if not self._is_closed:
            _log.info("The link with %s has ended: %s.", _name_of(node), reason.value)
        if reason is not LinkEnd.CLOSED:
            self._endpoint.cut(link.channel.peer)
        self._closed_news.append(node)
        # A send must not be answered within the call.
        if reason is LinkEnd.UNSENT:
            self._loop.call_soon(self._report_closed)
        else:
            self._report_closed()
        if known.reaching is not None and known.link is None and reason is not LinkEnd.REPLACED:
            known.reaching.link_ended(self._clock.monotonic_ms() - link.opened_ms)

    def _was_told(self, node: int, message: ReplicaMessage) -> None:
        self.listener.replica_told(node, message)

    def _asked(self, asked: PeerAsked, command: Command, channel: Channel) -> Answer:
        """Answer a question, as a processor of remoting."""
        link = channel.peer.session
        assert isinstance(link, PeerLink), "greetings take all that comes before the link"
        return answering(asked, command, link, self._limits.questions_max)

    # Steps of the above.

    def _know(self, node: int) -> _Known:
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = _Known(node)
        return known

    def _may_use(self, host: str) -> bool:
        return self._secret is not None or is_local(host)

    def _report_closed(self) -> None:
        while self._closed_news:
            self.listener.link_closed(self._closed_news.pop(0), is_process_gone=False)

    def _report_other_life(self, known: _Known, partner: PeerIdentity) -> None:
        """The registered life of a node is gone where another one answers at its address."""
        address = known.address
        was_dialled = partner.node > self.identity.node
        if was_dialled and address is not None and address.incarnation != partner.incarnation:
            self._report_gone(known, address)

    def _compare_clocks(self, node: int, their_ms: int) -> None:
        ahead_ms = their_ms - self._clock.wall_ms()
        if their_ms and abs(ahead_ms) >= CLOCK_DIFFERENCE_MS_MIN:
            how = "ahead of" if ahead_ms > 0 else "behind"
            sentence = (
                f"The clock of {_name_of(node)} is {abs(ahead_ms) / 1000:,.0f} s {how} this node's: set both. Records "
                "get the time of their leader, and each replica deletes old ones by its own."
            )
            self._faults.report(logging.WARNING, _name_of(node), "clock", sentence)

    def _report_gone(self, known: _Known, address: PeerAddress) -> None:
        if known.is_gone_reported or self._is_closed:
            return
        known.is_gone_reported = True
        _log.info("The process of %s at %s is gone.", _name_of(known.node), address)
        self.listener.link_closed(known.node, is_process_gone=True)

    def _report_unreachable(self, node: int, what: str) -> None:
        sentence = f"No link with {_name_of(node)} at {what}. It is tried again, and not reported again."
        self._faults.report(logging.WARNING, _name_of(node), "unreachable", sentence)

    # Addresses, and the way there.

    def _forget_address(self, known: _Known) -> None:
        known.address, known.is_gone_reported = None, False
        if known.reaching is not None:
            known.reaching.close()
            known.reaching = None

    def _set_address(self, known: _Known, address: PeerAddress) -> None:
        before = known.address
        self._forget_address(known)
        if not self._may_use(address.host):
            sentence = f"No link with {_name_of(known.node)}: {address} is on a network, and there is no cluster secret"
            self._faults.report(logging.ERROR, _name_of(known.node), "secret", f"{sentence}. Give all nodes one.")
            return
        known.address = address
        attempt = self._dial if known.node > self.identity.node else self._ask_address
        known.reaching = Reaching(
            partial(attempt, known, address),
            partial(self._refused, known, address),
            lambda error: self._report_unreachable(known.node, f"{address}: {error}"),
            self._reachings,
        )
        link = known.link
        # The link with the life before. One with a life that was not registered yet is that of the present one.
        if link is not None and before is not None and before.incarnation == link.partner.incarnation:
            is_other_life = link.partner.incarnation != address.incarnation
            if is_other_life:
                link.end(LinkEnd.REPLACED)
        if known.link is not None or known.address is not address:
            return
        if known.node > self.identity.node:
            known.reaching.begin()
        # The other side is about to dial: it has just been registered, or is here for longer than this one.
        else:
            known.reaching.try_later()

    def _is_path_open(self, node: int) -> bool:
        return self._paths is None or self._paths.is_open(node)

    def _check_path(self, node: int) -> None:
        # Never as if refused, which would say that the process is gone.
        if not self._is_path_open(node):
            raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))

    def _cut(self, node: int) -> None:
        """End the link with the node, whose path is closed now."""
        known = self._known.get(node)
        if known is not None and known.link is not None:
            known.link.end(LinkEnd.LOST)

    async def _dial(self, known: _Known, address: PeerAddress) -> bool:
        self._check_path(known.node)
        tls = None if self._tls is None else self._tls.client
        try:
            peer = await self._endpoint.connector.connect(
                address.host, address.port, tls=tls, timeout_ms=self._limits.connect_ms_max
            )
        except OSError as error:
            # Of a name with several addresses, none of which took the connection: asyncio names no reason then.
            if error.errno is None and not isinstance(error, ssl.SSLError):
                await self._probe.ask(address.host, address.port)
            raise
        if self._endpoint.channel_of(peer) is None:
            raise OwnerGone("the connection ended at once")
        nonce = self._random_bytes(NONCE_BYTES)
        now_ms = self._clock.wall_ms()
        handshake = DiallingHandshake(self.identity, self._secret or b"", nonce, known.node, now_ms)
        greeting = Greeting(peer, handshake, known.node, self._greetings)
        peer.session = greeting
        greeting.begin()
        return True

    async def _ask_address(self, known: _Known, address: PeerAddress) -> bool:
        self._check_path(known.node)
        await self._probe.ask(address.host, address.port)
        return False

    def _refused(self, known: _Known, address: PeerAddress) -> bool:
        self._report_gone(known, address)
        # The node that dials finds the next process there; the other one is dialled by it.
        return known.node > self.identity.node

    def _accepted(self, peer: Peer) -> Greeting:
        nonce = self._random_bytes(NONCE_BYTES)
        handshake = DialledHandshake(self.identity, self._secret or b"", nonce, self._clock.wall_ms())
        return Greeting(peer, handshake, None, self._greetings)


def _name_of(node: int) -> str:
    return f"node {node}" if node >= 0 else "an unnamed node"
