"""Both machines of a handshake against each other, and against those that know no secret or garble what passes."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.cluster.peers.faults import sentence_of
from hutong.cluster.peers.handshake.machine import DialledHandshake, DiallingHandshake, Handshake
from hutong.cluster.peers.handshake.messages import (
    CHALLENGE,
    HELLO,
    PROOF,
    READY,
    REFUSAL,
    WELCOME,
    HandshakeRefused,
    PeerHello,
    PeerRefusal,
    RefusalReason,
    encode_handshake,
)
from hutong.cluster.peers.identity import PeerIdentity
from hutong.foundation.errors import ProtocolError

SECRET = b"secret"
ONE = PeerIdentity("cluster", 1, 11, "1.0")
TWO = PeerIdentity("cluster", 2, 22, "1.1")


def speaking(identity: PeerIdentity, lowest: int, highest: int) -> PeerIdentity:
    return replace(identity, protocol_lowest=lowest, protocol_highest=highest)


def pair(
    one: PeerIdentity = ONE, two: PeerIdentity = TWO, secrets: tuple[bytes, bytes] = (SECRET, SECRET), to_node: int = 2
) -> tuple[DiallingHandshake, DialledHandshake]:
    return DiallingHandshake(one, secrets[0], b"1" * 32, to_node), DialledHandshake(two, secrets[1], b"2" * 32)


def play(dialling: Handshake, dialled: Handshake, rounds: int = 9) -> list[int]:
    """Let them talk; returns the codes in order."""
    codes = []
    turn, other, sent = dialled, dialling, dialling.begin()
    for _ in range(rounds):
        if not sent:
            break
        [(code, body)] = sent
        codes.append(code)
        sent = turn.receive(code, body)
        turn, other = other, turn
    return codes


def test_both_know_each_other_at_the_end() -> None:
    dialling, dialled = pair()
    assert play(dialling, dialled) == [HELLO, CHALLENGE, PROOF, WELCOME, READY]
    assert (dialling.partner, dialled.partner) == (TWO, ONE)
    assert dialling.is_done
    assert dialled.is_done


def test_a_cluster_without_a_secret() -> None:
    dialling, dialled = pair(secrets=(b"", b""))
    play(dialling, dialled)
    assert dialled.is_done


@pytest.mark.parametrize(
    ("one", "two", "to_node", "reason"),
    [
        (replace(ONE, protocol_highest=3, protocol_lowest=2), TWO, 2, RefusalReason.PROTOCOL_VERSION),
        (replace(ONE, cluster_id="other"), TWO, 2, RefusalReason.CLUSTER),
        (replace(ONE, node=2), TWO, 2, RefusalReason.SAME_NUMBER),
        (ONE, TWO, 3, RefusalReason.OTHER_NODE),
    ],
)
def test_those_that_do_not_belong_together(
    one: PeerIdentity, two: PeerIdentity, to_node: int, reason: RefusalReason
) -> None:
    dialling, dialled = pair(one, two, to_node=to_node)
    with pytest.raises(HandshakeRefused) as refused:
        play(dialling, dialled)
    assert refused.value.reason is reason
    assert sentence_of(refused.value)
    assert dialled.partner is None
    with pytest.raises(HandshakeRefused) as heard:
        dialling.receive(REFUSAL, encode_handshake(PeerRefusal(reason)))
    assert heard.value.is_theirs
    assert heard.value.reason is reason
    assert sentence_of(heard.value)


@pytest.mark.parametrize(
    ("one", "two", "used"),
    [((1, 1), (1, 1), 1), ((1, 2), (1, 1), 1), ((1, 3), (2, 4), 3), ((3, 3), (1, 5), 3), ((4, 9), (1, 4), 4)],
)
def test_the_highest_version_that_both_speak_is_used(one: tuple[int, int], two: tuple[int, int], used: int) -> None:
    dialling, dialled = pair(speaking(ONE, *one), speaking(TWO, *two))
    assert play(dialling, dialled)[-1] == READY
    assert dialling.protocol == dialled.protocol == used


def test_without_a_common_version_both_sides_say_in_one_sentence_what_each_speaks() -> None:
    dialling, dialled = pair(speaking(ONE, 1, 2), speaking(TWO, 3, 3))
    [(_, hello)] = dialling.begin()
    with pytest.raises(HandshakeRefused) as refused:
        dialled.receive(HELLO, hello)
    with pytest.raises(HandshakeRefused) as heard:
        dialling.receive(REFUSAL, encode_handshake(PeerRefusal(refused.value.reason)))
    assert "it speaks 1 to 2 (Hutong '1.0'), this node 3 (Hutong '1.1')" in sentence_of(refused.value)
    assert "this node speaks 1 to 2 (Hutong '1.0')" in sentence_of(heard.value)


def test_one_that_tells_no_lowest_version_speaks_the_one_that_it_tells() -> None:
    for told, used in ((2, 2), (1, None), (4, None)):
        dialled = DialledHandshake(speaking(TWO, 2, 3), SECRET, b"2" * 32)
        hello = PeerHello(told, "cluster", 1, 11, 2, b"1" * 32)
        with nullcontext() if used else pytest.raises(HandshakeRefused):
            dialled.receive(HELLO, encode_handshake(hello))
        assert dialled.protocol == used


@pytest.mark.parametrize("secret", [b"other", b"", SECRET + b"!"])
def test_a_secret_that_is_another_one(secret: bytes) -> None:
    dialling, dialled = pair(secrets=(secret, SECRET))
    with pytest.raises(HandshakeRefused) as refused:
        play(dialling, dialled)
    assert refused.value.reason is RefusalReason.SECRET
    assert dialled.partner is None
    assert not dialled.is_done


def test_one_that_was_dialled_must_prove_itself_too() -> None:
    dialling, dialled = pair()
    [(_, hello)] = dialling.begin()
    [(_, challenge)] = dialled.receive(HELLO, hello)
    [(_, proof)] = dialling.receive(CHALLENGE, challenge)
    # What the other side has said says nothing about who sends it back.
    with pytest.raises(HandshakeRefused):
        dialling.receive(WELCOME, proof)
    assert dialling.partner is None


def test_what_was_said_before_proves_nothing_in_another_handshake() -> None:
    first, dialled = pair()
    [(_, hello)] = first.begin()
    [(_, challenge)] = dialled.receive(HELLO, hello)
    [(_, proof)] = first.receive(CHALLENGE, challenge)
    again = DialledHandshake(TWO, SECRET, b"3" * 32)
    again.receive(HELLO, hello)
    with pytest.raises(HandshakeRefused):
        again.receive(PROOF, proof)


def test_the_higher_number_does_not_dial() -> None:
    dialled = DialledHandshake(ONE, SECRET, b"2" * 32)
    with pytest.raises(ProtocolError, match="lower number"):
        dialled.receive(*DiallingHandshake(TWO, SECRET, b"1" * 32, 1).begin()[0])


@given(st.integers(0, 3), st.data())
def test_a_changed_byte_is_found(step: int, data: st.DataObject) -> None:
    dialling, dialled = pair()
    turn: Handshake = dialled
    other: Handshake = dialling
    sent = dialling.begin()
    for _ in range(step):
        sent = turn.receive(*sent[0])
        turn, other = other, turn
    [(code, body)] = sent
    at = data.draw(st.integers(0, len(body) - 1))
    changed = body[:at] + bytes([body[at] ^ data.draw(st.integers(1, 255))]) + body[at + 1 :]
    with pytest.raises((HandshakeRefused, ProtocolError)):  # noqa: PT012
        sent = turn.receive(code, changed)
        # It may still be a message, but then the proofs differ.
        for _ in range(4):
            turn, other = other, turn
            sent = turn.receive(*sent[0])


@given(st.sampled_from([HELLO, CHALLENGE, PROOF, WELCOME, READY, REFUSAL, 7]), st.binary(max_size=300))
def test_garbage_is_refused(code: int, body: bytes) -> None:
    for machine in pair():
        machine.begin()
        with pytest.raises((ProtocolError, HandshakeRefused)):
            machine.receive(code, body)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(ProtocolError):
        pair()[1].receive(HELLO, b'{"x":' + b"[" * 4_000)


def test_a_reason_of_a_later_version() -> None:
    with pytest.raises(HandshakeRefused) as refused:
        pair()[0].receive(REFUSAL, b'{"reason": 99, "more": 1}')
    assert refused.value.reason is RefusalReason.OTHER
    assert "same version" in sentence_of(refused.value)
