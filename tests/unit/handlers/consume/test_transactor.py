"""Transactions of results and offsets, on a producer that fails as it is told to."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from hutong.bus.durable.records import OutgoingRecord
from hutong.handlers.consume.transactor import COMMIT_TRIES_MAX, TransactionUnknown, Transactor

RECORD = OutgoingRecord("invoices", b"ann", b"{}", [])
OFFSETS = {("orders", 0): 7}


def failure(code: int = KafkaError._TIMED_OUT, **kinds: bool) -> KafkaException:
    return KafkaException(KafkaError(code, "no", **kinds))


class ScriptedProducer:
    """Notes the calls, and raises what is next in the script of a call."""

    def __init__(self, **script: list[BaseException]) -> None:
        self.script = script
        self.calls: list[str] = []

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.script.get(name):
            raise self.script[name].pop(0)

    def init_transactions(self, _: float) -> None:
        self._called("init")

    def begin_transaction(self) -> None:
        self._called("begin")

    def produce(self, *_: object, **__: object) -> None:
        self._called("produce")

    def poll(self, _: float) -> None:
        self._called("poll")

    def send_offsets_to_transaction(self, *_: object) -> None:
        self._called("offsets")

    def commit_transaction(self, _: float) -> None:
        self._called("commit")

    def abort_transaction(self, _: float) -> None:
        self._called("abort")


class Group:
    def consumer_group_metadata(self) -> None: ...


def transactor(*producers: ScriptedProducer) -> Transactor:
    left = iter(producers)

    def make(settings: dict[str, Any]) -> Any:
        assert settings["transactional.id"] == "billing-1"
        assert "message.timeout.ms" not in settings
        return next(left)

    return Transactor({"message.timeout.ms": 3}, "billing-1", make)


def commit(made: Transactor) -> None:
    made.commit(Group(), OFFSETS, [RECORD])  # type: ignore[arg-type]


def test_one_producer_makes_all_transactions() -> None:
    producer = ScriptedProducer()
    made = transactor(producer)
    commit(made)
    commit(made)
    once = ["begin", "produce", "offsets", "commit"]
    assert producer.calls == ["init", *once, *once]


def test_without_offsets_there_is_no_transaction() -> None:
    transactor().commit(Group(), {}, [])  # type: ignore[arg-type]


def test_a_full_queue_is_waited_for() -> None:
    producer = ScriptedProducer(produce=[BufferError()])
    commit(transactor(producer))
    assert producer.calls == ["init", "begin", "produce", "poll", "produce", "offsets", "commit"]


@pytest.mark.parametrize("call", ["produce", "offsets"])
def test_a_failure_before_the_commit_is_aborted_and_nothing_is_stored(call: str) -> None:
    script: dict[str, list[BaseException]] = {call: [failure()]}
    producer, second = ScriptedProducer(**script), ScriptedProducer()
    made = transactor(producer, second)
    with pytest.raises(KafkaException) as failed:
        commit(made)
    assert not isinstance(failed.value, TransactionUnknown)
    assert producer.calls[-1] == "abort"
    commit(made)
    assert second.calls[-1] == "commit"


def test_a_transaction_that_cannot_be_aborted_is_left_to_the_next_producer() -> None:
    second = ScriptedProducer()
    made = transactor(ScriptedProducer(offsets=[failure()], abort=[failure(fatal=True)]), second)
    with pytest.raises(KafkaException):
        commit(made)
    commit(made)
    assert second.calls[0] == "init"


def test_a_commit_is_repeated_where_that_is_safe() -> None:
    producer = ScriptedProducer(commit=[failure(retriable=True), failure(retriable=True)])
    commit(transactor(producer))
    assert producer.calls[-3:] == ["commit", "commit", "commit"]


def test_a_commit_that_must_be_aborted_has_stored_nothing() -> None:
    producer = ScriptedProducer(commit=[failure(KafkaError.ILLEGAL_GENERATION, txn_requires_abort=True)])
    with pytest.raises(KafkaException) as failed:
        commit(transactor(producer))
    assert not isinstance(failed.value, TransactionUnknown)
    assert producer.calls[-2:] == ["commit", "abort"]


@pytest.mark.parametrize(
    "failures", [[failure(fatal=True)], [failure(retriable=True) for _ in range(COMMIT_TRIES_MAX)]]
)
def test_a_commit_without_an_answer_is_of_unknown_outcome(failures: list[BaseException]) -> None:
    second = ScriptedProducer()
    made = transactor(ScriptedProducer(commit=failures), second)
    with pytest.raises(TransactionUnknown):
        commit(made)
    commit(made)
    assert second.calls[0] == "init"


def test_a_producer_that_cannot_begin_is_tried_again() -> None:
    second = ScriptedProducer()
    made = transactor(ScriptedProducer(init=[failure(retriable=True)]), second)
    with pytest.raises(KafkaException):
        commit(made)
    commit(made)
    assert second.calls[-1] == "commit"


def test_a_library_without_the_setting_is_asked_without_it() -> None:
    producer = ScriptedProducer()
    asked: list[bool] = []

    def make(settings: dict[str, Any]) -> Any:
        asked.append("metadata.recovery.strategy" in settings)
        if asked[-1]:
            raise failure(KafkaError._INVALID_ARG)
        return producer

    commit(Transactor({}, "billing-1", make))
    assert (asked, producer.calls[-1]) == ([True, False], "commit")


def test_a_wrong_setting_is_told() -> None:
    def make(_: dict[str, Any]) -> Any:
        raise failure(KafkaError._INVALID_ARG)

    with pytest.raises(KafkaException):
        commit(Transactor({"nonsense": 1}, "billing-1", make))
