"""The half messages of a cluster, on the node that leads their two topics: takes them in, ends them, asks producers.

A start reads what the topics have; meanwhile requests wait.

Decides nothing.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.produce.record_appends import StoredRecords, append_records
from hutong.broker.rocketmq.halves.decisions import Decision, HalfOutcome, encode_decision
from hutong.broker.rocketmq.halves.half_messages import half_of, prepared
from hutong.broker.rocketmq.halves.machine import CheckRules, Claim, GiveUp, HalfCheck, HalfMachine, Instruction
from hutong.broker.rocketmq.halves.replay import Replay
from hutong.broker.rocketmq.halves.settling import HalfLogs, Settling
from hutong.broker.rocketmq.halves.trimming import TrimPlan
from hutong.broker.rocketmq.records.positions import log_and_offset, physical_offset
from hutong.broker.rocketmq.records.reading import read_record
from hutong.broker.rocketmq.records.translation import message_of, record_of
from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.broker.topics.internal_topics import OwnTopic
from hutong.foundation.errors import HutongError, LimitExceeded, OwnerGone, Refused
from hutong.foundation.waiting.table import Owner
from hutong.journal.append.qos import Qos
from hutong.wire.kafka.batch.records import Record, build_batch, parse_batch_header
from hutong.wire.rocketmq.codes import HALF_DECISIONS_TOPIC, HALF_TOPIC, ResponseCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hutong.broker.broker import Broker
    from hutong.broker.rocketmq.delays.levels import RealPlace
    from hutong.broker.rocketmq.halves.checks import TransactionChecks
    from hutong.broker.topics.partition import Partition, Topic
    from hutong.foundation.timers import Timer, TimerWheel
    from hutong.foundation.waiting.pending import Continuation
    from hutong.wire.rocketmq.messages import Host, StoredMessage

HALF_LOGS: Final = (OwnTopic(HALF_TOPIC, 1), OwnTopic(HALF_DECISIONS_TOPIC, 1))
TRIM_INTERVAL_MS: Final = 1_000
AGAIN_MS: Final = 10_000  # after a start that could not read the logs
WAITING_MAX: Final = 10_000  # requests that came before the logs were read
_log: Final = logging.getLogger("hutong.rocketmq")


class HalfMessages:
    """Call `start` once, then `close` once."""

    def __init__(
        self,
        broker: Broker,
        timers: TimerWheel,
        rules: CheckRules,
        checks: TransactionChecks,
        store_host: Host,
        topics: Sequence[Topic],
    ) -> None:
        """`topics` are that of the half messages, and that of the decisions."""
        self._broker = broker
        halves, decisions = (topic.partitions[0] for topic in topics)
        self._led = HalfLogs(halves, decisions)
        self._timers = timers
        self._checks = checks
        self._store_host = store_host
        self._machine = HalfMachine(rules)
        self._rules = rules
        self._plan = TrimPlan()
        self._owner = Owner()
        self._logs: HalfLogs | None = None  # until both were read
        self._is_opening = False
        self._waiting: list[Continuation[None]] = []
        self._opening: Timer | None = None
        self._checking: Timer | None = None
        self._check_ms = 0  # when that is due
        self._trimming: Timer | None = None

    def start(self) -> None:
        """Ask about what earlier leaders have left."""
        self._open()

    def close(self) -> None:
        """Ask nobody any more. What waits stays in the log."""
        self._owner.end(OwnerGone("the node is stopping"))
        for timer in (self._opening, self._checking, self._trimming):
            if timer is not None:
                timer.cancel()
        self._opened(OwnerGone("the node is stopping"))

    # -- requests

    def put(
        self,
        message: StoredMessage,
        place: RealPlace,
        claim: Claim,
        owner: Owner,
        then: Continuation[tuple[Partition, StoredRecords]],
    ) -> None:
        """Store a half message; `then` gets its partition and its offset. Raises RocketRefused, LimitExceeded."""
        half_message = prepared(message, place, claim.group, claim.user)

        def ready(error: HutongError | None) -> None:
            if error is not None:
                then(error)
                return
            try:
                self._machine.expect()
            except LimitExceeded as full:
                then(full)
                return
            assert self._logs is not None, "it is open"
            stored = partial(self._stored, half_message, claim.connection, then)
            append_records(self._broker, self._logs.halves, [record_of(half_message)], owner, stored, is_durable=True)

        self._when_open(ready)

    def end(self, physical: int, claim: Claim, outcome: HalfOutcome, then: Continuation[None]) -> None:
        """Decide as a client says; `then` is called once that is stored.

        Raises RocketRefused for what is not its to end, or is decided already.
        """
        log_id, offset = log_and_offset(physical)
        logs = self._logs
        # Before the logs are read it is unknown: the client is asked later. One answer to all, since a client must not
        # learn which half messages of others are there.
        is_there = logs is not None and log_id == logs.halves.log.partition_id
        if not is_there or not self._machine.end(offset, claim):
            raise RocketRefused(
                ResponseCode.SYSTEM_ERROR, f"No half message of the group {claim.group:.100} is at {physical}."
            )
        self._settle(Decision(outcome, offset), then)

    # -- opening

    def _when_open(self, then: Continuation[None]) -> None:
        """Call `then` once the logs were read. Raises LimitExceeded."""
        if self._logs is not None:
            then(None)
            return
        if len(self._waiting) >= WAITING_MAX:
            raise LimitExceeded("WAITING_MAX", WAITING_MAX)
        self._waiting.append(then)
        self._open()

    def _open(self) -> None:
        # Each request that comes meanwhile waits for the same.
        if self._is_opening:
            return
        self._is_opening = True
        logs = self._led
        try:
            for partition in logs:
                partition.check_served()
        # Its disk has failed, or another node leads them now.
        except Refused as error:
            self._opened(error)
            return
        # A reading that failed has left its first part.
        self._machine = HalfMachine(self._rules)
        self._machine.passed(logs.halves.log.start_offset - 1)

        def read(error: HutongError | None) -> None:
            if error is None:
                self._logs = logs
                self._plan.note(logs.decisions.log.high_watermark, logs.halves.log.high_watermark)
                self._trim_later()
                self._plan_checks()
            self._opened(error)

        clock = self._broker.clock
        Replay(logs.halves.log, logs.decisions.log, self._machine, clock, self._soon).begin(read)

    def _opened(self, error: HutongError | None) -> None:
        self._is_opening = False
        if error is not None and not self._owner.has_ended:
            _log.error("half messages cannot be read, and nobody is asked about them: %s", error)
            self._opening = self._timers.add(self._broker.clock.monotonic_ms() + AGAIN_MS, self._open)
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(error)

    def _soon(self, work: Callable[[], None]) -> None:
        if not self._owner.has_ended:
            self._opening = self._timers.add(self._broker.clock.monotonic_ms(), work)

    # -- storing and deciding

    def _stored(
        self,
        message: StoredMessage,
        connection: int,
        then: Continuation[tuple[Partition, StoredRecords]],
        outcome: StoredRecords | HutongError,
    ) -> None:
        if isinstance(outcome, HutongError):
            self._machine.not_stored()
            then(outcome)
            return
        half = half_of(message)
        assert half is not None, "it was prepared here"
        assert self._logs is not None, "it is open"
        self._machine.stored(outcome.base_offset, half, connection, self._broker.clock.monotonic_ms())
        self._plan_checks()
        then((self._logs.halves, outcome))

    def _settle(self, decision: Decision, then: Continuation[None]) -> None:
        def settled(error: HutongError | None) -> None:
            self._settled(decision, error)
            then(error)

        assert self._logs is not None, "it is open"
        Settling(self._broker, self._logs, decision, self._owner, settled).begin()

    def _settled(self, decision: Decision, error: HutongError | None) -> None:
        if error is None:
            self._machine.decided(decision.offset)
            self._trim_later()
            return
        if self._owner.has_ended:
            return
        _log.warning("the half message %d waits on, since its end cannot be stored: %s", decision.offset, error)
        self._machine.failed(decision.offset, self._broker.clock.monotonic_ms())
        self._plan_checks()

    # -- asking

    def _plan_checks(self) -> None:
        due_ms, timer = self._machine.due_ms, self._checking
        if due_ms is None or self._owner.has_ended:
            return
        if timer is not None and timer.is_waiting:
            # One that comes too early plans anew: to set it anew with each half message would cost more.
            if self._check_ms <= due_ms:
                return
            timer.cancel()
        self._check_ms = due_ms
        self._checking = self._timers.add(max(due_ms, self._broker.clock.monotonic_ms()), self._check)

    def _check(self) -> None:
        for instruction in self._machine.due(self._broker.clock.monotonic_ms()):
            self._carry_out(instruction)
        self._plan_checks()

    def _carry_out(self, instruction: Instruction) -> None:
        logs = self._logs
        assert logs is not None, "it is open"
        if isinstance(instruction, GiveUp):
            self._settle(Decision(HalfOutcome.GIVEN_UP, instruction.offset), _nobody_asks)
            return
        self._note_check(logs, instruction)
        # It counts all the same, as in RocketMQ: a message whose producer never comes back must not stay for ever.
        if self._checks.may_ask(instruction):
            read_record(logs.halves.log, instruction.offset, partial(self._ask, logs, instruction))

    def _note_check(self, logs: HalfLogs, check: HalfCheck) -> None:
        """Store how often it was asked about. Nobody waits for it: after a crash it may be asked about once more."""
        value = encode_decision(Decision(HalfOutcome.CHECKED, check.offset, check.times))
        batch = build_batch([Record(0, self._broker.clock.wall_ms(), None, value)])
        logs.decisions.log.append([(memoryview(batch), parse_batch_header(batch))], Qos.ONE_WAY)

    def _ask(self, logs: HalfLogs, check: HalfCheck, outcome: Record | HutongError) -> None:
        if isinstance(outcome, HutongError):
            _log.error("the half message %d cannot be read: %s", check.offset, outcome)
            return
        physical = physical_offset(logs.halves.log.partition_id, outcome.offset)
        self._checks.ask(check, message_of(outcome, "", 0, physical, self._store_host))

    # -- trimming

    def _trim_later(self) -> None:
        if self._owner.has_ended or (self._trimming is not None and self._trimming.is_waiting):
            return
        self._trimming = self._timers.add(self._broker.clock.monotonic_ms() + TRIM_INTERVAL_MS, self._trim)

    def _trim(self) -> None:
        assert self._logs is not None, "it is open"
        halves, decisions = self._logs.halves.log, self._logs.decisions.log
        self._plan.note(decisions.high_watermark, self._machine.end_offset)
        start_offset = self._machine.start_offset
        try:
            halves.delete_before(min(start_offset, halves.high_watermark))
        # Its disk has failed; a new start reads what is there.
        except Refused:
            return
        decisions_start = self._plan.decisions_start(start_offset)
        if decisions_start is None:
            return

        def trimmed(error: HutongError | None) -> None:
            # Kept without harm: they are about half messages that a start does not see.
            if error is None and not self._owner.has_ended:
                decisions.delete_before(decisions_start)

        halves.when_committed(trimmed)


def _nobody_asks(_error: HutongError | None) -> None:
    """Leave an outcome by the way."""
