"""The machine of a durable consumer, told as transcripts: what was heard, what was said. No loop, no clock, no
broker."""

import pytest
from tests.unit.bus.durable.stage import STEADY, Stage, log_of

from hutong.bus.durable.consume.caution import CautionNote
from hutong.bus.durable.consume.machine import PROCESS_ENDED, DurableConsumerMachine
from hutong.bus.durable.consume.messages import (
    Arrived,
    ConsumerBounds,
    DeadLetterNotStored,
    DeadLetterStored,
    Deliver,
    Demand,
    Failed,
    Handled,
    NoteWritten,
    PartitionAssigned,
    Pause,
    RecordState,
    Resume,
    RevertNote,
    Revoked,
    SendDeadLetter,
    Stop,
    WriteNote,
)
from hutong.bus.durable.consume.retry import Order, Retry
from hutong.foundation.machine import Tick


def started(stage: Stage, count: int = 10) -> Stage:
    stage.assign(*stage.log)
    for number in stage.log:
        stage.fetch(number, count)
    return stage


def test_one_partition_is_handled_in_order_one_at_a_time() -> None:
    stage = started(Stage(log_of(3)))
    for offset in range(3):
        assert stage.numbers(stage.running) == [(0, offset)]
        stage.succeed(stage.running[0])
    assert stage.machine.take_commits() == {0: (3, CautionNote())}
    assert stage.machine.take_commits() == {}


def test_partitions_go_on_beside_each_other() -> None:
    stage = started(Stage(log_of(3, partitions=2)))
    assert stage.numbers(stage.running) == [(0, 0), (1, 0)]
    stage.succeed(stage.running[1])
    stage.succeed(stage.running[1])
    assert stage.numbers(stage.running) == [(0, 0), (1, 2)]
    assert stage.machine.take_commits() == {1: (2, CautionNote())}


def test_a_failed_message_keeps_its_partition_until_it_is_handled() -> None:
    stage = started(Stage(log_of(2)))
    assert stage.fail(stage.running[0]) == []
    assert stage.machine.next_tick_ms() == 100
    assert stage.wait(99) == []
    assert [type(said) for said in stage.wait(1)] == [Deliver]
    assert stage.numbers(stage.running) == [(0, 0)]
    stage.succeed(stage.running[0])
    assert stage.numbers(stage.running) == [(0, 1)]
    assert stage.machine.next_tick_ms() is None


def test_back_off_grows_and_then_the_dead_letter_takes_it() -> None:
    stage = started(Stage(log_of(2), Retry(attempts=4, first_delay=0.1, jitter=0)))
    pauses = []
    while not stage.buried:
        stage.fail(stage.running[0])
        due_ms = stage.machine.next_tick_ms()
        if due_ms is not None:
            pauses.append(due_ms - stage.now_ms)
            stage.wait(pauses[-1])
    assert pauses == [100, 200, 400]
    dead = stage.buried[0]
    assert (dead.attempts, dead.error_type, dead.error_text) == (4, "ValueError", "no")
    assert (dead.first_failure_ms, dead.last_failure_ms) == (1_000, 1_700)
    assert stage.numbers(stage.running) == [(0, 1)]


def test_the_offset_passes_a_dead_letter_only_when_it_is_acknowledged() -> None:
    machine = DurableConsumerMachine(Retry(attempts=1), Order.PARTITION, lambda: 0.0)
    machine.handle(Demand(None))
    machine.handle(PartitionAssigned(0, 0))
    (deliver,) = machine.handle(Arrived(0, log_of(2)[0]))
    assert isinstance(deliver, Deliver)
    said = machine.handle(fail_of(deliver))
    assert said == [SendDeadLetter(deliver.entry)]
    assert machine.take_commits() == {}
    assert machine.handle(DeadLetterNotStored(deliver.entry, "away", is_hopeless=False, now_ms=0)) == []
    assert machine.handle(Tick(10_000)) == [SendDeadLetter(deliver.entry)]
    assert machine.take_commits() == {}
    assert [type(said) for said in machine.handle(DeadLetterStored(deliver.entry))] == [Deliver]
    assert machine.take_commits() == {0: (1, CautionNote())}


def fail_of(deliver: Deliver) -> Failed:
    return Failed(deliver.entry, "ValueError", "no", 0, 0)


def test_a_dead_letter_that_can_never_be_written_stops_everything() -> None:
    machine = DurableConsumerMachine(Retry(attempts=1), Order.PARTITION, lambda: 0.0)
    machine.handle(Demand(None))
    machine.handle(PartitionAssigned(0, 0))
    machine.handle(PartitionAssigned(1, 0))
    (deliver,) = machine.handle(Arrived(0, log_of(2)[0]))
    assert isinstance(deliver, Deliver)
    machine.handle(fail_of(deliver))
    (stop,) = machine.handle(DeadLetterNotStored(deliver.entry, "not allowed", is_hopeless=True, now_ms=0))
    assert isinstance(stop, Stop)
    assert "partition 0, offset 0" in stop.reason
    assert "not allowed" in stop.reason
    assert machine.handle(Arrived(1, log_of(2)[0])) == []
    assert machine.final_positions([0, 1]) == {0: 0, 1: 0}


def test_without_a_dead_letter_topic_the_last_failure_stops() -> None:
    machine = DurableConsumerMachine(Retry(attempts=1), Order.PARTITION, lambda: 0.0, has_dead_letters=False)
    machine.handle(Demand(None))
    machine.handle(PartitionAssigned(0, 0))
    (deliver,) = machine.handle(Arrived(0, log_of(2)[0]))
    assert isinstance(deliver, Deliver)
    (stop,) = machine.handle(fail_of(deliver))
    assert isinstance(stop, Stop)
    assert machine.final_positions([0, 1]) == {0: 0}


def test_attempts_without_end() -> None:
    stage = started(Stage(log_of(1), Retry(attempts=None, first_delay=0.001, delay_max=1)))
    for _ in range(100):
        stage.fail(stage.running[0])
        stage.wait(1_000)
    assert stage.running[0].attempts == 101
    assert stage.buried == []


def test_a_handler_may_ask_for_its_own_pause() -> None:
    stage = started(Stage(log_of(1)))
    stage.fail(stage.running[0], after_ms=5_000)
    assert stage.machine.next_tick_ms() == 5_000


def test_by_key_only_the_same_key_waits() -> None:
    stage = Stage(log_of(8, keys=3), order=Order.KEY)  # keys: None 1 2 0 1 None 0 1
    started(stage)
    assert [entry.offset for entry in stage.running] == [0, 1, 2, 3, 5]
    stage.fail(stage.running[1])
    assert [entry.offset for entry in stage.running] == [0, 2, 3, 5]
    for entry in list(stage.running):
        stage.succeed(entry)
    assert [entry.offset for entry in stage.running] == [6]
    assert stage.machine.take_commits() == {0: (1, CautionNote())}  # 1 waits for its next attempt
    stage.wait(100)
    for _ in range(4):
        stage.succeed(stage.running[0])
    assert stage.machine.take_commits() == {0: (8, CautionNote())}


def test_no_more_handlers_at_a_time_than_allowed() -> None:
    stage = started(Stage(log_of(10), order=Order.KEY, bounds=ConsumerBounds(handling=2)))
    assert [entry.offset for entry in stage.running] == [0, 1]
    stage.succeed(stage.running[1])
    assert [entry.offset for entry in stage.running] == [0, 2]


def test_a_full_partition_is_paused_and_resumed_at_half() -> None:
    stage = started(Stage(log_of(10), bounds=ConsumerBounds(records=4)), 4)
    assert Pause(0) in stage.said
    assert Resume(0) not in stage.succeed(stage.running[0])
    assert Resume(0) in stage.succeed(stage.running[0])


def test_a_partition_is_full_by_bytes_too() -> None:
    stage = Stage(log_of(10), bounds=ConsumerBounds(bytes=25))
    stage.assign(0)
    stage.fetch(0, 2)
    assert Pause(0) not in stage.said
    stage.fetch(0, 1)
    assert Pause(0) in stage.said


def test_demand_is_exact() -> None:
    stage = Stage(log_of(5))
    stage.play(Demand(0))
    started(stage)
    assert stage.running == []
    stage.play(Demand(2))
    assert [entry.offset for entry in stage.running] == [0]
    stage.succeed(stage.running[0])
    stage.succeed(stage.running[0])
    assert stage.running == []
    stage.play(Demand(None))
    assert [entry.offset for entry in stage.running] == [2]


def test_what_was_revoked_counts_for_nothing_and_its_handler_is_waited_for() -> None:
    stage = started(Stage(log_of(3)))
    old = stage.running[0]
    stage.revoke(0)
    assert stage.committed[0] == (0, None)
    started(stage)
    assert stage.running == [old], "a second handler beside the first would break the order"
    stage.succeed(old)
    assert stage.numbers(stage.running) == [(0, 0)], "again: nobody may say that it was handled for us"
    assert stage.running[0] is not old


def test_a_revoked_partition_takes_its_retries_with_it() -> None:
    stage = started(Stage(log_of(3, partitions=2)))
    stage.fail(stage.running[0])
    stage.revoke(0)
    assert stage.machine.next_tick_ms() is None
    assert stage.machine.handling == 1


def test_arrivals_of_a_partition_that_is_not_ours_and_repetitions_are_left_out() -> None:
    stage = Stage(log_of(3))
    assert stage.play(Arrived(0, stage.log[0])) == []
    started(stage)
    assert stage.play(Arrived(0, stage.log[0])) == []
    assert stage.play(Revoked([7])) == []


def test_a_failed_commit_is_taken_again() -> None:
    stage = started(Stage(log_of(3)))
    stage.succeed(stage.running[0])
    assert stage.machine.take_commits() == {0: (1, CautionNote())}
    stage.machine.give_back_commits([0, 9])
    assert stage.machine.take_commits() == {0: (1, CautionNote())}


def test_an_orderly_end_leaves_no_caution() -> None:
    stage = started(Stage(log_of(3)))
    stage.succeed(stage.running[0])
    stage.revoke(0)
    stage.start()
    started(stage)
    assert not [said for said in stage.said if isinstance(said, WriteNote)]
    assert stage.numbers(stage.running) == [(0, 1)]


def crash_while_handling(stage: Stage, offset: int) -> int:
    """Runs process after process, each ended by the message at `offset`, until one survives. How many died."""
    deaths = 0
    while True:
        started(stage, 10_000)
        while stage.running and stage.running[0].offset != offset:
            stage.succeed(stage.running[0])
        if not stage.running:
            return deaths
        deaths += 1
        stage.start()


def test_the_message_that_ends_its_process_is_found_and_given_up() -> None:
    stage = Stage(log_of(900), STEADY)
    assert crash_while_handling(stage, 777) == 5  # in the dark, among 32, and three times alone
    (dead,) = stage.buried
    assert (dead.offset, dead.attempts, dead.error_type) == (777, 0, PROCESS_ENDED)
    assert len(stage.done) == 900


def test_a_message_that_fails_in_order_is_not_held_for_one_that_ends_the_process() -> None:
    stage = Stage(log_of(3), Retry(attempts=3, first_delay=0.1, jitter=0, crashes=1))
    stage.committed[0] = (0, CautionNote(group=32))
    started(stage)
    assert stage.committed[0] == (0, CautionNote(1, 1))
    said = stage.fail(stage.running[0])
    assert said == [RevertNote(0, 0, CautionNote(1, 0))]
    stage.wait(100)
    assert stage.committed[0] == (0, CautionNote(1, 1)), "in hand again"


def test_crashes_without_end() -> None:
    stage = Stage(log_of(2), Retry(crashes=None))
    stage.committed[0] = (0, CautionNote(group=1, crashes=1_000))
    started(stage)
    assert stage.numbers(stage.running) == [(0, 0)]


def test_crashes_are_those_of_one_message_alone() -> None:
    stage = Stage({0: log_of(5)[0][2:]}, STEADY)
    stage.committed[0] = (1, CautionNote(group=1, crashes=3))  # of a message that compaction has removed
    started(stage)
    assert stage.buried == []
    assert stage.numbers(stage.running) == [(0, 2)]


def test_by_key_the_lanes_open_when_caution_is_over() -> None:
    stage = Stage(log_of(9, keys=3), order=Order.KEY)
    stage.committed[0] = (0, CautionNote(group=1))
    started(stage)
    assert stage.numbers(stage.running) == [(0, 0)]
    stage.succeed(stage.running[0])
    assert [entry.offset for entry in stage.running] == [1, 2, 3, 5]
    assert stage.committed[0] == (1, CautionNote()), "it is written down before any other begins"


def test_a_crash_after_the_suspect_does_not_count_against_it() -> None:
    stage = Stage(log_of(40))
    stage.committed[0] = (0, CautionNote(group=1, crashes=2))
    started(stage, 40)
    for _ in range(5):
        stage.succeed(stage.running[0])
    stage.start()
    started(stage, 40)
    assert stage.buried == []
    assert stage.committed[0] == (1, CautionNote(32)), "from where suspicion ended, nobody in particular is suspect"


def test_crashes_in_a_row_do_not_keep_a_partition_from_getting_on() -> None:
    stage = Stage(log_of(2_000))
    for _ in range(10):
        started(stage, 2_000)
        for _ in range(150):
            stage.succeed(stage.running[0])
        stage.start()
    offset, _ = stage.committed[0]
    assert offset >= 4 * (150 - 32)
    assert stage.buried == []


def test_revoked_while_its_note_is_written() -> None:
    machine = DurableConsumerMachine(STEADY, Order.PARTITION, lambda: 0.0)
    machine.handle(Demand(None))
    machine.handle(PartitionAssigned(0, 0, CautionNote()))
    (write,) = machine.handle(Arrived(0, log_of(2)[0]))
    assert isinstance(write, WriteNote)
    assert write.entry.state is RecordState.NOTING
    machine.handle(Revoked([0]))
    assert machine.handling == 1
    assert machine.handle(NoteWritten(write.entry)) == []
    assert machine.handling == 0


def test_a_partition_is_assigned_once() -> None:
    stage = started(Stage(log_of(1)))
    with pytest.raises(AssertionError, match="assigned twice"):
        stage.play(PartitionAssigned(0, 0))
    assert stage.play(Handled(stage.running[0])) == []
