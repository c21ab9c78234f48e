"""For all histories of producers, disks and crashes: each transaction ends once, in one way.

Two producers share an id and never know of each other. Each remembers what it was told, and asks in any order.
"""

import os
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.transactions.stage import ID, P0, P1, Marked, Stage

from hutong.foundation.waiting.table import Owner
from hutong.transactions.messages import ProducerIdentity, TransactionRecord, TransactionReply
from hutong.transactions.records import decode_key, decode_record
from hutong.transactions.states import TransactionState as State
from hutong.wire.kafka.error_codes import ErrorCode

EXAMPLES = int(os.environ.get("TEST_TRANSACTION_HISTORIES", "60"))
WAYS = {
    True: {State.PREPARE_COMMIT, State.COMPLETE_COMMIT},
    False: {State.PREPARE_ABORT, State.COMPLETE_ABORT},
}
ENDED = {True: State.COMPLETE_COMMIT, False: State.COMPLETE_ABORT}


@dataclass
class Client:
    is_bumping: bool
    producer: ProducerIdentity | None = None


class World:
    """Producers around one id, and what must hold between what they are told, what is stored and what is marked."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.stage.state.holds_back = self.stage.markers.holds_back = True
        self.clients = [Client(False), Client(True)]
        self.owed: list[list[TransactionReply]] = []
        self.stage.markers.on_asked = self._marked

    def step(self, action: str, number: int) -> None:
        client, stage = self.clients[number % 2], self.stage
        match action:
            case "init":
                self._init(client, expected=client.producer if number > 1 else None)
            case "add" if client.producer is not None:
                self.owed.append(stage.add(client.producer, P0, *([P1] if number > 1 else [])))
            case "commit" | "abort" if client.producer is not None:
                self._end(client, is_commit=action == "commit")
            case "flush":
                stage.state.flush(1)
            case "mark":
                stage.markers.flush(1)
            case "break":
                stage.markers.broken = frozenset({P0}) if not stage.markers.broken else frozenset()
            case "time":
                stage.pass_time(700 * (number + 1))
            case "crash":
                self.owed.clear()  # nobody is answered any more
                stage.restart()
        self.check()

    def check(self) -> None:
        stage = self.stage
        for name, transaction in stage.coordinator:
            assert name == ID
            transaction.check_invariants()
        records = self._records()
        for before, after in pairwise(records):
            if before.state.is_decided:
                assert after.state is ENDED[before.state is State.PREPARE_COMMIT] or after == before
            if before.producer_id == after.producer_id:
                assert before.producer_epoch <= after.producer_epoch
        assert all(len(replies) <= 1 for replies in self.owed)

    def settle(self) -> None:
        """In the end, when disks work and time passes, everybody is answered and nothing is left open."""
        stage = self.stage
        stage.markers.broken = frozenset()
        for _ in range(20):
            stage.state.flush()
            stage.markers.flush()
            stage.pass_time(1_000)
        self.check()
        assert all(len(replies) == 1 for replies in self.owed)
        for _, transaction in stage.coordinator:
            assert not transaction.is_busy
            assert transaction.record.state.is_at_rest

    def _records(self) -> list[TransactionRecord]:
        return [decode_record(value) for key, value in self.stage.state.durable if value and decode_key(key) == ID]

    def _marked(self, asked: Marked) -> None:
        """Markers tell what is decided on disk, and nothing else."""
        decision = self._records()[-1]
        assert decision.state is (State.PREPARE_COMMIT if asked.is_commit else State.PREPARE_ABORT)
        assert ProducerIdentity(decision.producer_id, decision.producer_epoch) == asked.producer
        assert asked.partitions <= decision.partitions

    def _init(self, client: Client, expected: ProducerIdentity | None) -> None:
        replies: list[TransactionReply] = []
        self.owed.append(replies)

        def told(reply: TransactionReply) -> None:
            replies.append(reply)
            if reply.error is ErrorCode.NONE:
                others = [other.producer for other in self.clients if other is not client]
                told_now = ProducerIdentity(reply.producer_id, reply.producer_epoch)
                assert expected is not None or told_now not in others, "two producers were told the same"
                client.producer = told_now

        self.stage.coordinator.init(ID, 10_000, expected, Owner(), told)

    def _end(self, client: Client, is_commit: bool) -> None:
        replies: list[TransactionReply] = []
        self.owed.append(replies)
        stage, producer = self.stage, client.producer
        assert producer is not None

        def told(reply: TransactionReply) -> None:
            replies.append(reply)
            if reply.error is not ErrorCode.NONE:
                return
            last = decode_record([value for _, value in stage.state.durable if value][-1])
            ways = (
                {State.PREPARE_COMMIT, State.COMPLETE_COMMIT}
                if is_commit
                else {State.PREPARE_ABORT, State.COMPLETE_ABORT}
            )
            assert last.state in ways, "an end was answered that is not on disk"
            if client.is_bumping and client.producer == producer:
                client.producer = ProducerIdentity(reply.producer_id, reply.producer_epoch)

        version = 2 if client.is_bumping else 0
        stage.coordinator.end(ID, producer, Owner(), told, is_commit=is_commit, client_version=version)


ACTIONS = ["init", "add", "add", "commit", "abort", "flush", "flush", "mark", "mark", "break", "time", "crash"]


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 3)), max_size=80))
def test_each_transaction_ends_once_and_in_one_way(script: list[tuple[str, int]]) -> None:
    world = World()
    for action, number in script:
        world.step(action, number)
    world.settle()
