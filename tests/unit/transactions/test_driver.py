"""The coordinator as transcripts: what is asked, what is stored, where markers go, what is found after a restart."""

import pytest
from tests.unit.transactions.stage import ID, P0, P1, SETTINGS, Marked, Stage, errors

from hutong.foundation.errors import DiskFull, HutongError, Refused
from hutong.foundation.waiting.table import Owner
from hutong.transactions.messages import ProducerIdentity, TransactionReply
from hutong.transactions.records import encode_key, encode_record
from hutong.transactions.states import TransactionState as State
from hutong.transactions.transitions import EPOCH_MAX
from hutong.wire.kafka.error_codes import ErrorCode

OK = [ErrorCode.NONE]
BUSY = [ErrorCode.CONCURRENT_TRANSACTIONS]
HOUR_MS = 3_600_000


def moved(producer: ProducerIdentity, epochs: int = 1) -> ProducerIdentity:
    return ProducerIdentity(producer.producer_id, producer.producer_epoch + epochs)


# ---- from beginning to end


def test_a_decision_is_on_disk_before_its_markers_and_its_completion_after_them() -> None:
    stage = Stage()
    producer = stage.initialised()
    assert errors(stage.add(producer, P0, P1)) == OK
    stage.state.holds_back = stage.markers.holds_back = True
    ended = stage.end(producer, is_commit=True)
    assert stage.markers.asked == []
    stage.state.flush()
    assert stage.markers.asked == [Marked(producer, frozenset({P0, P1}), True)]
    assert stage.state_now() is State.PREPARE_COMMIT
    assert ended == []
    stage.markers.flush()
    assert stage.durable_states[-1] is State.PREPARE_COMMIT
    stage.state.flush()
    assert stage.durable_states == [State.EMPTY, State.ONGOING, State.PREPARE_COMMIT, State.COMPLETE_COMMIT]
    assert errors(ended) == OK


def test_while_it_ends_everything_else_is_asked_to_come_again() -> None:
    stage = Stage()
    producer = stage.initialised()
    stage.add(producer, P0)
    stage.markers.holds_back = True
    stage.end(producer, is_commit=True)
    assert errors(stage.add(producer, P1)) == BUSY
    assert errors(stage.end(producer, is_commit=True)) == BUSY
    assert errors(stage.init()) == BUSY
    stage.markers.flush()
    assert errors(stage.add(producer, P1)) == OK


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_that_is_asked_for_again_is_answered_as_before(is_commit: bool) -> None:
    stage = Stage()
    producer = stage.initialised()
    stage.add(producer, P0)
    stage.end(producer, is_commit=is_commit)
    assert errors(stage.end(producer, is_commit=is_commit)) == OK
    assert errors(stage.end(producer, is_commit=not is_commit)) == [ErrorCode.INVALID_TXN_STATE]
    assert len(stage.markers.asked) == 1


def test_before_it_began_there_is_nothing_to_end() -> None:
    stage = Stage()
    producer = stage.initialised()
    assert errors(stage.end(producer, is_commit=True)) == [ErrorCode.INVALID_TXN_STATE]
    assert errors(stage.end(producer, is_commit=False)) == [ErrorCode.INVALID_TXN_STATE]


def test_who_is_not_known_is_told_so() -> None:
    stage = Stage()
    nobody = ProducerIdentity(1, 0)
    assert errors(stage.add(nobody, P0)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    producer = stage.initialised()
    assert errors(stage.add(nobody, P0)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert errors(stage.add(moved(producer, -1), P0)) == [ErrorCode.PRODUCER_FENCED]
    assert errors(stage.end(moved(producer), is_commit=True)) == [ErrorCode.PRODUCER_FENCED]


# ---- version 2 (KIP-890)


def test_each_end_raises_the_epoch() -> None:
    stage = Stage()
    producer = stage.initialised()
    stage.add(producer, P0)
    (reply,) = stage.end(producer, is_commit=True, is_bumping=True)
    assert reply == TransactionReply(ErrorCode.NONE, producer.producer_id, producer.producer_epoch + 1)
    assert stage.markers.asked == [Marked(moved(producer), frozenset({P0}), True)]
    assert errors(stage.add(producer, P0)) == [ErrorCode.PRODUCER_FENCED]
    assert errors(stage.add(moved(producer), P0)) == OK


def test_an_end_asked_for_again_is_known_by_its_epoch() -> None:
    stage = Stage()
    producer = stage.initialised()
    stage.add(producer, P0)
    (first,) = stage.end(producer, is_commit=True, is_bumping=True)
    stage.restart()
    assert stage.end(producer, is_commit=True, is_bumping=True) == [first]
    assert errors(stage.end(producer, is_commit=False, is_bumping=True)) == [ErrorCode.INVALID_TXN_STATE]
    assert errors(stage.end(moved(producer), is_commit=True, is_bumping=True)) == [ErrorCode.INVALID_TXN_STATE]
    assert errors(stage.end(moved(producer, 2), is_commit=True, is_bumping=True)) == [ErrorCode.PRODUCER_FENCED]


def test_an_abort_may_end_what_never_began() -> None:
    stage = Stage()
    producer = stage.initialised()
    (reply,) = stage.end(producer, is_commit=False, is_bumping=True)
    assert reply == TransactionReply(ErrorCode.NONE, producer.producer_id, producer.producer_epoch + 1)
    assert stage.state_now() is State.COMPLETE_ABORT
    (reply,) = stage.end(moved(producer), is_commit=False, is_bumping=True)
    assert reply.producer_epoch == producer.producer_epoch + 2


def test_used_up_epochs_lead_to_a_new_producer_id() -> None:
    stage = Stage()
    stage.initialised()
    stage.set_epoch(EPOCH_MAX - 1)
    producer = ProducerIdentity(stage.transaction.record.producer_id, EPOCH_MAX - 1)
    stage.add(producer, P0)
    (reply,) = stage.end(producer, is_commit=True, is_bumping=True)
    assert (reply.error, reply.producer_epoch) == (ErrorCode.NONE, 0)
    assert reply.producer_id != producer.producer_id
    assert stage.markers.asked == [Marked(ProducerIdentity(producer.producer_id, EPOCH_MAX), frozenset({P0}), True)]
    assert stage.end(producer, is_commit=True, is_bumping=True) == [reply]
    assert errors(stage.add(ProducerIdentity(reply.producer_id, 0), P0)) == OK


# ---- initialising


def test_each_new_producer_shuts_out_the_one_before() -> None:
    stage = Stage()
    first, second = stage.initialised(), stage.initialised()
    assert second == moved(first)
    assert errors(stage.add(first, P0)) == [ErrorCode.PRODUCER_FENCED]
    assert errors(stage.add(second, P0)) == OK


def test_a_new_producer_aborts_what_the_one_before_left_open() -> None:
    stage = Stage()
    first = stage.initialised()
    stage.add(first, P0)
    assert errors(stage.init()) == BUSY
    assert stage.markers.asked == [Marked(moved(first), frozenset({P0}), False)]
    assert stage.initialised() == moved(first, 2)
    assert errors(stage.end(first, is_commit=True)) == [ErrorCode.PRODUCER_FENCED]


def test_a_producer_goes_on_after_an_error() -> None:
    stage = Stage()
    producer = stage.initialised()
    (reply,) = stage.init(expected=producer)
    assert reply.producer_epoch == producer.producer_epoch + 1
    assert stage.init(expected=producer) == [reply]  # the answer may have been lost
    assert stage.initialised() == moved(producer, 2)
    assert errors(stage.init(expected=producer)) == [ErrorCode.PRODUCER_FENCED]
    assert errors(stage.init(expected=ProducerIdentity(7, 0))) == [ErrorCode.PRODUCER_FENCED]


def test_an_exhausted_producer_gets_a_new_id() -> None:
    stage = Stage()
    old = stage.initialised()
    stage.set_epoch(EPOCH_MAX - 1)
    (reply,) = stage.init(expected=ProducerIdentity(old.producer_id, EPOCH_MAX - 1))
    assert (reply.error, reply.producer_epoch) == (ErrorCode.NONE, 0)
    assert reply.producer_id != old.producer_id
    again = stage.init(expected=ProducerIdentity(old.producer_id, EPOCH_MAX - 1))
    assert again == [reply]


def test_times_and_names_are_bounded() -> None:
    stage = Stage()
    assert errors(stage.init(timeout_ms=0)) == [ErrorCode.INVALID_TRANSACTION_TIMEOUT]
    assert errors(stage.init(timeout_ms=60_001)) == [ErrorCode.INVALID_TRANSACTION_TIMEOUT]
    replies: list[TransactionReply] = []
    stage.coordinator.init("", 1_000, None, Owner(), replies.append)
    stage.coordinator.init("x" * 5_000, 1_000, None, Owner(), replies.append)
    assert errors(replies) == [ErrorCode.INVALID_REQUEST] * 2
    producer = stage.initialised()
    many = [("wide", index) for index in range(SETTINGS.partitions_max + 1)]
    assert errors(stage.add(producer, *many)) == [ErrorCode.POLICY_VIOLATION]


# ---- time


def test_what_lasts_too_long_is_aborted_and_its_producer_shut_out() -> None:
    stage = Stage()
    producer = stage.initialised()
    stage.add(producer, P0)
    stage.pass_time(9_900)
    assert stage.state_now() is State.ONGOING
    stage.pass_time(120)
    assert stage.state_now() is State.COMPLETE_ABORT
    assert stage.markers.asked == [Marked(moved(producer), frozenset({P0}), False)]
    assert errors(stage.end(producer, is_commit=True)) == [ErrorCode.PRODUCER_FENCED]
    assert stage.coordinator.timed_out_total == 1


def test_time_goes_on_over_a_restart() -> None:
    stage = Stage()
    stage.add(stage.initialised(), P0)
    stage.pass_time(9_000)
    stage.restart()
    stage.pass_time(900)
    assert stage.state_now() is State.ONGOING
    stage.pass_time(120)
    assert stage.state_now() is State.COMPLETE_ABORT


def test_an_id_of_which_nothing_is_heard_is_forgotten() -> None:
    stage = Stage()
    stage.initialised()
    stage.pass_time(60_000)
    stage.initialised()
    stage.pass_time(50_000)
    assert stage.coordinator.get(ID) is not None
    stage.pass_time(100_000)
    assert stage.coordinator.get(ID) is None
    assert stage.state.durable[-1] == (encode_key(ID), None)
    stage.restart()
    assert len(stage.coordinator) == 0


def test_a_transaction_of_a_later_time_ends_all_the_same() -> None:
    stage = Stage()
    stage.add(stage.initialised(), P0)
    stage.clock.jump(-HOUR_MS)
    stage.restart()
    stage.pass_time(10_100)
    assert stage.state_now() is State.COMPLETE_ABORT


def test_an_end_of_version_2_does_not_take_another_owner_s_epoch() -> None:
    stage = Stage()
    first = stage.initialised()
    second = stage.initialised()
    assert second.producer_epoch == first.producer_epoch + 1
    # The second one's end keeps its epoch, which looks to the first as if its own end had raised it.
    stage.add(second, P0)
    assert errors(stage.end(second, is_commit=False)) == OK
    assert errors(stage.end(first, is_commit=False, is_bumping=True)) == [ErrorCode.PRODUCER_FENCED]


# ---- what fails


@pytest.mark.parametrize("jump_ms", [0, HOUR_MS, -HOUR_MS])
def test_markers_that_cannot_be_written_are_tried_again(jump_ms: int) -> None:
    stage = Stage()
    producer = stage.initialised()
    stage.add(producer, P0, P1)
    stage.markers.broken = frozenset({P1})
    assert errors(stage.end(producer, is_commit=True)) == OK  # decided is decided
    assert stage.state_now() is State.PREPARE_COMMIT
    assert stage.transaction.unmarked == {P1}
    stage.markers.broken = frozenset()
    stage.clock.jump(jump_ms)
    stage.pass_time(SETTINGS.retry_interval_ms + 20)
    assert stage.state_now() is State.COMPLETE_COMMIT
    assert stage.markers.asked[-1].partitions == {P1}


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
def test_a_clock_that_is_set_does_not_change_how_long_a_transaction_may_last(jump_ms: int) -> None:
    stage = Stage()
    stage.add(stage.initialised(), P0)
    stage.clock.jump(jump_ms)
    stage.pass_time(9_900)
    assert stage.state_now() is State.ONGOING
    stage.pass_time(200)
    assert stage.state_now() is State.COMPLETE_ABORT


@pytest.mark.parametrize("failure", [DiskFull("full"), Refused(ErrorCode.KAFKA_STORAGE_ERROR)])
@pytest.mark.parametrize("is_bumping", [False, True])
def test_a_decision_that_may_be_on_disk_is_stored_until_it_is(is_bumping: bool, failure: HutongError) -> None:
    stage = Stage()
    producer = stage.initialised()
    stage.add(producer, P0)
    # The second is what a journal answers while its disk is full.
    stage.state.failure = failure
    refused = stage.end(producer, is_commit=True, is_bumping=is_bumping)
    assert errors(refused) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    instead = stage.end(producer, is_commit=False, is_bumping=is_bumping)
    assert errors(instead) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert stage.markers.asked == []
    stage.state.failure = None
    stage.pass_time(SETTINGS.retry_interval_ms + 20)
    assert stage.state_now() is State.COMPLETE_COMMIT
    assert errors(stage.end(producer, is_commit=True, is_bumping=is_bumping)) == OK


def test_what_turns_out_to_be_on_disk_after_all_counts() -> None:
    stage = Stage()
    producer = stage.initialised()
    stage.add(producer, P0)
    stage.state.failure = DiskFull("full")
    stage.end(producer, is_commit=True)
    pending = stage.transaction.pending_record
    assert pending is not None
    stage.state.failure = None
    stage.coordinator.apply_late(encode_key(ID), encode_record(pending))
    assert stage.state_now() is State.COMPLETE_COMMIT


def test_what_is_refused_changes_nothing() -> None:
    stage = Stage()
    producer = stage.initialised()
    stage.state.failure = Refused(ErrorCode.MESSAGE_TOO_LARGE)
    assert errors(stage.add(producer, P0)) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    stage.state.failure = None
    assert stage.state_now() is State.EMPTY
    assert errors(stage.add(producer, P0)) == OK


# ---- restarts


@pytest.mark.parametrize("is_commit", [True, False])
def test_what_was_decided_is_carried_out_after_a_crash(is_commit: bool) -> None:
    stage = Stage()
    producer = stage.initialised()
    stage.add(producer, P0, P1)
    stage.markers.holds_back = True
    stage.end(producer, is_commit=is_commit)
    stage.restart()
    assert errors(stage.add(producer, P0)) == BUSY
    assert stage.markers.asked == [Marked(producer, frozenset({P0, P1}), is_commit)] * 2
    stage.markers.flush()
    assert stage.state_now() is (State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT)
    assert errors(stage.end(producer, is_commit=is_commit)) == OK


def test_what_was_not_decided_goes_on_after_a_crash() -> None:
    stage = Stage()
    producer = stage.initialised()
    stage.add(producer, P0)
    stage.state.holds_back = True
    assert stage.end(producer, is_commit=True) == []
    stage.restart()
    stage.state.holds_back = False
    assert stage.state_now() is State.ONGOING
    assert errors(stage.end(producer, is_commit=False)) == OK


# ---- produce


def test_a_produce_is_admitted_to_what_is_part_of_the_transaction() -> None:
    stage = Stage()
    producer = stage.initialised()
    assert stage.admit(producer, P0, may_add=False) == [{P0: ErrorCode.TRANSACTION_ABORTABLE}]
    stage.add(producer, P0)
    (verdict,) = stage.admit(producer, P0, P1, may_add=False)
    assert verdict == {P0: ErrorCode.NONE, P1: ErrorCode.TRANSACTION_ABORTABLE}
    (fenced,) = stage.admit(moved(producer, -1), P0, may_add=False)
    assert fenced == {P0: ErrorCode.PRODUCER_FENCED}


def test_a_produce_of_version_2_adds_its_partitions() -> None:
    stage = Stage()
    producer = stage.initialised()
    stage.state.holds_back = True
    first, second = stage.admit(producer, P0, may_add=True), stage.admit(producer, P1, may_add=True)
    assert first == second == []
    stage.state.flush()
    assert first == [{P0: ErrorCode.NONE}]
    assert second == [{P1: ErrorCode.NONE}]
    assert stage.transaction.record.partitions == {P0, P1}


def test_a_produce_waits_for_the_end_of_the_transaction_before_but_not_for_ever() -> None:
    stage = Stage()
    producer = stage.initialised()
    stage.add(producer, P0)
    stage.markers.holds_back = True
    stage.end(producer, is_commit=True, is_bumping=True)
    late, next_one = stage.admit(moved(producer), P0, may_add=True), stage.admit(moved(producer), P1, may_add=False)
    assert late == next_one == []
    stage.pass_time(SETTINGS.admission_wait_ms_max + 20)
    assert late == [{P0: ErrorCode.CONCURRENT_TRANSACTIONS}]
    waiting = stage.admit(moved(producer), P0, may_add=True)
    stage.markers.flush()
    assert waiting == [{P0: ErrorCode.NONE}]


def test_closing_answers_everyone_who_waits() -> None:
    stage = Stage()
    producer = stage.initialised()
    stage.add(producer, P0)
    stage.markers.holds_back = True
    ended = stage.end(producer, is_commit=True, is_bumping=True)
    admitted = stage.admit(moved(producer), P0, may_add=True)
    stage.coordinator.close()
    assert errors(ended) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert admitted == [{P0: ErrorCode.CONCURRENT_TRANSACTIONS}]
    assert len(stage.wheel) == 0
