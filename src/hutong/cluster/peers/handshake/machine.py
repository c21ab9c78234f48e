"""Both sides of a handshake as machines: messages in, messages out, and the identity of the other side at the end.

Strategy: a proof is an HMAC-SHA256 by the cluster's secret over the role and over all bytes of HELLO and CHALLENGE,
which have both nonces and both identities. So a proof can be neither replayed, nor sent back, nor used for another
name. The one that dialled proves itself first: a stranger that connects gets nothing to try secrets on.

Knows nothing of connections, time or chance: nonces arrive by constructor.
"""

import hashlib
import hmac
from typing import Final

from hutong.cluster.peers.handshake.messages import (
    CHALLENGE,
    HELLO,
    PROOF,
    PROOF_BYTES,
    READY,
    REFUSAL,
    TEXT_MAX,
    WELCOME,
    HandshakeRefused,
    PeerChallenge,
    PeerHello,
    PeerRefusal,
    RefusalReason,
    decode_handshake,
    encode_handshake,
    reason_of,
)
from hutong.cluster.peers.identity import PeerIdentity
from hutong.foundation.errors import ProtocolError
from hutong.wire.buffer import Buffer

Sent = list[tuple[int, bytes]]
"""Messages to send, by code and body."""

_DIALLER: Final = b"hutong peers 1: the node that dialled"
_DIALLED: Final = b"hutong peers 1: the node that was dialled"


class Handshake:
    """One side. `partner` is set once the other side has proven itself; `is_done` once both may send.

    `protocol` is the version that both use, as soon as it is known what the other side speaks.
    `clock_ms` is what this side takes for the time, and tells; `their_clock_ms` what the other side told, 0 if nothing.
    """

    def __init__(self, own: PeerIdentity, secret: bytes, nonce: bytes, clock_ms: int = 0) -> None:
        self.partner: PeerIdentity | None = None
        self.claimed: PeerIdentity | None = None  # by the other side, which has not proven it
        self.is_done = False
        self.protocol: int | None = None
        self.their_clock_ms = 0
        self._clock_ms = clock_ms
        self._own = own
        self._secret = secret
        self._nonce = nonce
        self._awaited = 0  # the code of the next message
        self._transcript = hashlib.sha256()

    def begin(self) -> Sent:
        """The first messages."""
        return []

    def receive(self, code: int, body: Buffer) -> Sent:
        """Take a message. Raises HandshakeRefused, which the other side should hear of, and ProtocolError."""
        if code == REFUSAL:
            raise self._refused_by(decode_handshake(body, PeerRefusal))
        if self.is_done or code != self._awaited:
            raise ProtocolError(f"message {code} of a handshake where {self._awaited} is due")
        return self._take(code, body)

    def _refused_by(self, refusal: PeerRefusal) -> HandshakeRefused:
        reason = reason_of(refusal.reason)
        # The other side tells no stranger what it speaks.
        detail = f"this node speaks {self._own.protocols}" if reason is RefusalReason.PROTOCOL_VERSION else ""
        return HandshakeRefused(reason, detail, is_theirs=True)

    def _take(self, code: int, body: Buffer) -> Sent:
        raise NotImplementedError

    def _note(self, body: Buffer) -> None:
        """Make the bytes a part of what is proven."""
        self._transcript.update(len(body).to_bytes(4))
        self._transcript.update(body)

    def _proof(self, role: bytes) -> bytes:
        return hmac.digest(self._secret, role + self._transcript.digest(), "sha256")

    def _check_proof(self, proof: Buffer, role: bytes) -> None:
        if len(proof) != PROOF_BYTES or not hmac.compare_digest(bytes(proof), self._proof(role)):
            raise HandshakeRefused(RefusalReason.SECRET)

    def _check_claim(self, claim: PeerHello | PeerChallenge) -> None:
        own = self._own
        self.their_clock_ms = claim.clock_ms
        protocols = claim.protocol, claim.lowest_protocol or claim.protocol
        self.claimed = PeerIdentity(claim.cluster_id, claim.node, claim.incarnation, claim.version, *protocols)
        # Both sides come to the same number: the proofs are over what both have said.
        self.protocol = own.shared_protocol(self.claimed)
        if self.protocol is None:
            raise HandshakeRefused(
                RefusalReason.PROTOCOL_VERSION, f"it speaks {self.claimed.protocols}, this node {own.protocols}"
            )
        if claim.cluster_id != own.cluster_id:
            raise HandshakeRefused(RefusalReason.CLUSTER, f"{claim.cluster_id!r}, not {own.cluster_id!r}")
        if claim.node == own.node:
            raise HandshakeRefused(RefusalReason.SAME_NUMBER, str(own.node))


class DiallingHandshake(Handshake):
    """Of the node with the lower number."""

    def __init__(self, own: PeerIdentity, secret: bytes, nonce: bytes, to_node: int, clock_ms: int = 0) -> None:
        super().__init__(own, secret, nonce, clock_ms)
        self._to_node = to_node

    def begin(self) -> Sent:
        own, version = self._own, self._own.version[:TEXT_MAX]
        hello = PeerHello(
            own.protocol_highest,
            own.cluster_id,
            own.node,
            own.incarnation,
            self._to_node,
            self._nonce,
            version,
            self._clock_ms,
            own.protocol_lowest,
        )
        content = encode_handshake(hello)
        self._note(content)
        self._awaited = CHALLENGE
        return [(HELLO, content)]

    def _take(self, code: int, body: Buffer) -> Sent:
        if code == CHALLENGE:
            challenge = decode_handshake(body, PeerChallenge)
            self._check_claim(challenge)
            if challenge.node != self._to_node:
                raise HandshakeRefused(RefusalReason.OTHER_NODE, f"{challenge.node}, not {self._to_node}")
            self._note(body)
            self._awaited = WELCOME
            return [(PROOF, self._proof(_DIALLER))]
        self._check_proof(body, _DIALLED)
        self.partner, self.is_done = self.claimed, True
        return [(READY, b"")]


class DialledHandshake(Handshake):
    """Of the node with the higher number."""

    def __init__(self, own: PeerIdentity, secret: bytes, nonce: bytes, clock_ms: int = 0) -> None:
        super().__init__(own, secret, nonce, clock_ms)
        self._awaited = HELLO

    def _take(self, code: int, body: Buffer) -> Sent:
        if code == HELLO:
            return self._challenge(body)
        if code == PROOF:
            self._check_proof(body, _DIALLER)
            self.partner, self._awaited = self.claimed, READY
            return [(WELCOME, self._proof(_DIALLED))]
        self.is_done = True
        return []

    def _challenge(self, body: Buffer) -> Sent:
        own, hello = self._own, decode_handshake(body, PeerHello)
        self._check_claim(hello)
        if hello.to_node != own.node:
            raise HandshakeRefused(RefusalReason.OTHER_NODE, f"{own.node}, not {hello.to_node}")
        if hello.node > own.node:
            raise ProtocolError(f"node {hello.node} has dialled node {own.node}: the lower number dials")
        version = own.version[:TEXT_MAX]
        challenge = PeerChallenge(
            own.protocol_highest,
            own.cluster_id,
            own.node,
            own.incarnation,
            self._nonce,
            version,
            self._clock_ms,
            own.protocol_lowest,
        )
        content = encode_handshake(challenge)
        self._note(body)
        self._note(content)
        self._awaited = PROOF
        return [(CHALLENGE, content)]
