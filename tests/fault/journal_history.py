"""A state machine of everything that users, machine and disk can do to one journal, for hypothesis to arrange.

Users append with every QoS, with and without idempotence, repeat, read at any speed, keep views, watch, search by time,
give records up and delete logs. The machine does its blocking work in any order, one piece at a time. The disk is full
for a while, fails a flush, loses power between two steps, in the middle of one, or again during the start after it, and
then keeps, loses, tears and reorders what was not flushed. Processes are killed while the disk lives on.

After every step: views that a reader holds have not changed, who watches was told, watermarks only rise. After each
start: what was acknowledged or shown is there, each record is where it was put, offsets have no gaps, a producer that
repeats has each batch once and in order, what was given up stays away once that is on disk. In the end: everything
accepted gets through, the regions are all back, the files hold nothing that an inspection would object to.
"""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.fault.journal_model import Client, LogModel, Sent, batch_of, read_all
from tests.unit.journal.stage import DIRECTORY, SMALL, Stage, append_batch

from hutong.foundation.errors import HutongError, Refused, StorageError
from hutong.journal.append.log_appends import Appended
from hutong.journal.append.qos import Qos
from hutong.journal.clean.compaction import CompactionPolicy
from hutong.journal.clean.retention import RetentionPolicy
from hutong.journal.journal import Journal
from hutong.journal.log import DiskRead, PartitionLog
from hutong.journal.read.timestamps import NOT_FOUND, Found
from hutong.journal.recover.recovery import recover
from hutong.wire.kafka.batch.records import Record

PLAIN, STAMPED, IDEMPOTENT, RECEIVE, KEYED = 1, 2, 3, 4, 5
SHORT_LIVED = 100  # the first of the ids that are made and deleted; none is used twice
MARGIN_MS = 20  # more than one tick of the timer wheel
VIEWS_HELD_MAX = 4

KEYS = (b"x", b"y", b"z")

logs = st.sampled_from([PLAIN, STAMPED, IDEMPOTENT, RECEIVE, KEYED, SHORT_LIVED])
clients = st.integers(0, 3)


class JournalHistory(RuleBasedStateMachine):
    grows_old = True  # segments in recycled files

    @initialize(
        segment_bytes=st.sampled_from([4096, 8192]),
        preallocate_bytes=st.sampled_from([1024, 4096]),
        noted_batches_max=st.sampled_from([3, 64]),
        checkpoint_interval_bytes=st.sampled_from([2000, 1 << 40]),
        recycled_bytes_max=st.sampled_from([16384, 16384, 0]),
        filling_flush_bytes_max=st.sampled_from([1 << 20, 200, 0]),
        filling_piece_bytes=st.sampled_from([1024, 3000]),
        block_bytes=st.sampled_from([64, 512]),
        is_old=st.sampled_from([True, True, False]),
    )
    def begin(self, is_old: bool, **settings: int) -> None:
        self.stage = Stage(replace(SMALL, **settings))
        self.models = {
            PLAIN: LogModel(PLAIN),
            STAMPED: LogModel(STAMPED, log_append_time=True),
            IDEMPOTENT: LogModel(IDEMPOTENT),
            RECEIVE: LogModel(RECEIVE, receive_qos=True),
            KEYED: LogModel(KEYED, is_keyed=True, clock=self.stage.clock),
            SHORT_LIVED: LogModel(SHORT_LIVED),
        }
        self.short_lived = SHORT_LIVED
        self.clients = [
            Client(70, IDEMPOTENT, Qos.PERSISTENCE),
            Client(71, IDEMPOTENT, Qos.ALL),
            Client(72, RECEIVE, Qos.ALL),
            Client(73, KEYED, Qos.ALL),
        ]
        self.counter = 0
        self.sends = 0
        self.begin_more()
        self.begin_session()
        if is_old:
            self.grow_old(2, True)

    @rule(rounds=st.integers(1, 3), is_settled=st.booleans())
    def grow_old(self, rounds: int, is_settled: bool) -> None:
        """Segments are filled, given up and covered by a checkpoint, so that new ones get their files."""
        if not self.grows_old:
            return
        for _ in range(rounds):
            self.fill(PLAIN, 5)
            self.stage.settle()
            self.delete_everything()
            self.stage.settle()
            self.stage.journal.checkpointer.begin_checkpoint()
            self.stage.settle()
        self.fill(PLAIN, 4)  # the active segment is half full: a file for the next one is prepared
        if is_settled:
            self.stage.settle()

    def begin_more(self) -> None:
        """Logs and clients of other histories than this one."""

    def begin_session(self) -> None:
        """The state that lives only as long as a process."""
        self.sent: list[Sent] = []
        self.told_last = dict.fromkeys(Qos, 0)
        self.held: list[tuple[list[memoryview], list[bytes]]] = []
        self.reads_open = 0
        self.watched: dict[int, tuple[PartitionLog, Callable[[], None]]] = {}
        self.told_watermark: dict[int, int] = {}
        self.bounds: dict[int, tuple[int, int]] = {}
        for model in self.living():
            self.stage.journal.log(model.partition_id).configure(
                receive_qos=model.receive_qos, log_append_time=model.log_append_time
            )

    # -- producers

    @rule(
        partition_id=st.sampled_from([PLAIN, STAMPED, RECEIVE, SHORT_LIVED]),
        count=st.integers(1, 4),
        size=st.sampled_from([10, 60, 1300]),
        age_ms=st.sampled_from([0, 0, 700]),
        qos=st.sampled_from([Qos.RECEIVE, Qos.PERSISTENCE, Qos.ALL]),
    )
    def append(self, partition_id: int, count: int, size: int, age_ms: int, qos: Qos) -> None:
        timestamp_ms = self.stage.clock.wall_ms() - age_ms
        records = [Record(timestamp_ms=timestamp_ms, value=self.new_value(size)) for _ in range(count)]
        self.send(self.model(partition_id), records, qos)

    @rule(partition_id=st.sampled_from([PLAIN, RECEIVE, SHORT_LIVED]), count=st.integers(1, 5))
    def fill(self, partition_id: int, count: int) -> None:
        """Some large batches at once, so that segments are closed."""
        for _ in range(count):
            self.append(partition_id, 1, 1300, 0, Qos.PERSISTENCE)

    @rule(
        pairs=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=1, max_size=6),
        size=st.sampled_from([10, 400]),
        age_ms=st.sampled_from([0, 0, 700]),
        is_split=st.booleans(),
    )
    def put(self, pairs: list[tuple[bytes, bool]], size: int, age_ms: int, is_split: bool) -> None:
        """Keys get new values, or none any more: in one batch, or in one each."""
        timestamp_ms = self.stage.clock.wall_ms() - age_ms
        records = [
            Record(timestamp_ms=timestamp_ms, key=key, value=self.new_value(size) if has_value else None)
            for key, has_value in pairs
        ]
        for batch in [[record] for record in records] if is_split else [records]:
            self.send(self.models[KEYED], batch, Qos.PERSISTENCE)

    @rule(number=clients, count=st.integers(1, 3))
    def produce(self, number: int, count: int) -> None:
        """The idempotent producer sends a batch, or again what failed; it keeps at most five in flight."""
        client = self.clients[number]
        if client.has_failed:
            self.send_again(client)
        elif client.has_room:
            timestamp_ms = self.stage.clock.wall_ms()
            key = KEYS[count - 1] if client.partition_id == KEYED else b"%d" % client.producer_id
            records = [Record(timestamp_ms=timestamp_ms, key=key, value=self.new_value(30)) for _ in range(count)]
            batch = client.add(records)
            batch.sent = self.send(self.models[client.partition_id], records, client.qos, client, batch.sequence)

    @rule(number=clients)
    def repeat(self, number: int) -> None:
        """The producer has lost its connection: it does not know what came through and sends all of it again."""
        self.send_again(self.clients[number])

    @rule(number=clients)
    def renew(self, number: int) -> None:
        """The producer gives up on what is in flight and begins with a new epoch."""
        self.clients[number].renew()

    # -- readers

    @rule(
        partition_id=logs,
        back=st.integers(0, 20),
        max_bytes=st.sampled_from([0, 300, 1000, 1 << 20]),
        at_least_one=st.booleans(),
        is_held=st.booleans(),
    )
    def read(self, partition_id: int, back: int, max_bytes: int, at_least_one: bool, is_held: bool) -> None:
        """Somebody reads, now or as soon as a worker has time, and perhaps keeps what came."""
        model, log = self.model(partition_id), self.log(partition_id)
        offset, limit = max(log.start_offset, log.high_watermark - back), log.high_watermark
        found = log.read(offset, max_bytes, at_least_one=at_least_one)

        def came(views: list[memoryview] | HutongError) -> None:
            self.reads_open -= 1
            if isinstance(views, HutongError):
                assert isinstance(views, StorageError)
                assert log.is_deleted or offset < log.start_offset, views  # its segment was removed meanwhile
                return
            model.check_read(views, offset, limit, max_bytes, at_least_one and offset < limit)
            if is_held:
                self.held.append((views, [bytes(view) for view in views]))
                del self.held[:-VIEWS_HELD_MAX]

        self.reads_open += 1
        if isinstance(found, DiskRead):
            log.read_from_disk(found, came)
        else:
            came(found.buffers)
        for outside in (log.start_offset - 1, log.end_offset + 1):
            with contextlib.suppress(Refused):
                log.read(outside, max_bytes)
                raise AssertionError(f"offset {outside} is outside")

    @rule(partition_id=logs)
    def watch(self, partition_id: int) -> None:
        """Somebody wants to be told of what comes, or no longer."""
        log = self.log(partition_id)
        watched = self.watched.pop(log.partition_id, None)
        if watched is not None:
            log.unwatch(watched[1])
            return

        def told() -> None:
            self.told_watermark[log.partition_id] = log.high_watermark

        told()
        log.watch(told)
        self.watched[log.partition_id] = log, told

    @rule(
        partition_id=st.sampled_from([PLAIN, IDEMPOTENT, RECEIVE]), age_ms=st.sampled_from([-50, 0, 100, 700, 60_020])
    )
    def search(self, partition_id: int, age_ms: int) -> None:
        """Somebody looks for the first record from some time on."""
        model, log = self.model(partition_id), self.log(partition_id)
        self.stage.settle()
        timestamp_ms = self.stage.clock.wall_ms() - age_ms
        outcomes: list[Found | HutongError] = []
        log.offset_for_timestamp(timestamp_ms, outcomes.append)
        self.stage.settle()
        (outcome,) = outcomes
        journal = self.stage.journal
        is_stuck = journal.failure is not None or journal.is_disk_full  # then memory is not searched
        if not isinstance(outcome, HutongError) and not (is_stuck and model.receive_qos):
            visible = range(log.start_offset, log.high_watermark)
            stamps = [(model.placed[offset].timestamp_ms, offset) for offset in visible]
            assert outcome == next((stamp for stamp in stamps if stamp[0] >= timestamp_ms), NOT_FOUND)

    # -- what is given up

    @rule(partition_id=logs, back=st.integers(0, 5))
    def delete_before(self, partition_id: int, back: int) -> None:
        model, log = self.model(partition_id), self.log(partition_id)
        offset = max(log.start_offset, log.high_watermark - back)
        log.delete_before(offset)
        model.start_max = max(model.start_max, offset)

    @rule()
    def delete_everything(self) -> None:
        """Whatever can be given up is, so that whole segments go."""
        for model in self.living():
            log = self.stage.journal.log(model.partition_id)
            log.delete_before(log.high_watermark)
            model.start_max = log.start_offset

    @rule()
    def delete_log(self) -> None:
        model = self.models[self.short_lived]
        model.is_deleted, model.start_max = True, self.log(SHORT_LIVED).end_offset
        self.watched.pop(self.short_lived, None)
        self.stage.journal.delete_log(self.short_lived)
        self.short_lived += 1
        self.models[self.short_lived] = LogModel(self.short_lived)

    @rule()
    def roll(self) -> None:
        """The segment that is being written is closed, for it has grown old."""
        policy = RetentionPolicy(roll_bytes=0)
        self.stage.journal.roll_if_full(dict.fromkeys(self.stage.journal.log_ids(), policy))

    @rule(
        min_lag_ms=st.sampled_from([0, 0, 600]),
        delete_retention_ms=st.sampled_from([0, 1000]),
        steps=st.sampled_from([0, 2, 5, 100]),
        is_prepared=st.booleans(),
    )
    def compact(self, min_lag_ms: int, delete_retention_ms: int, steps: int, is_prepared: bool) -> None:
        """A cleaning begins, if there is reason to, and gets so far."""
        if is_prepared:
            self.stage.settle()
            self.roll()
            self.stage.settle()
        policy = CompactionPolicy(min_lag_ms, delete_retention_ms=delete_retention_ms, min_dirty_ratio=0.0)
        self.models[KEYED].compact(self.log(KEYED).last_stable_offset, policy, self.stage.clock.wall_ms())
        self.stage.journal.enforce_compaction({KEYED: policy})
        for _ in range(steps):
            self.stage.turn()
            self.stage.steps.work()
            self.stage.steps.tell()

    @rule(kept_bytes=st.sampled_from([-1, 0, 900, 3000]), kept_ms=st.sampled_from([-1, -1, 500]))
    def enforce_retention(self, kept_bytes: int, kept_ms: int) -> None:
        policy = RetentionPolicy(retention_ms=kept_ms, retention_bytes=kept_bytes)
        retained = (PLAIN, STAMPED, RECEIVE)
        self.stage.journal.enforce_retention(dict.fromkeys(retained, policy))
        oldest_ms = self.stage.clock.wall_ms() - kept_ms if kept_ms >= 0 else -1
        for partition_id in retained:
            self.models[partition_id].retain(self.log(partition_id).start_offset, kept_bytes, oldest_ms)

    # -- the machine and its disk

    @rule(step=st.sampled_from(["turn", "tell", "settle", "settle"]))
    def happen(self, step: str) -> None:
        match step:
            case "turn":
                self.stage.turn()
            case "tell":
                self.stage.steps.tell()
            case _:
                self.stage.settle()

    @rule(number=st.integers(0, 3))
    def work(self, number: int) -> None:
        """One of the workers finishes, not always the one that began first."""
        self.stage.steps.waiting.rotate(-number)
        self.stage.steps.work()
        self.stage.steps.waiting.rotate(number)

    @rule(milliseconds=st.sampled_from([MARGIN_MS, SMALL.lazy_flush_interval_ms + MARGIN_MS, 500]))
    def wait(self, milliseconds: int) -> None:
        self.stage.advance(milliseconds)

    @rule(capacity=st.sampled_from([None, None, 0, 8_000, 16_000]), is_cached=st.booleans(), fails=st.booleans())
    def change_the_disk(self, capacity: int | None, is_cached: bool, fails: bool) -> None:
        self.stage.disk.capacity_bytes = capacity
        self.stage.disk.is_cached = is_cached
        self.stage.disk.failing_flushes = int(fails)

    @rule()
    def heal(self) -> None:
        """Space is back and no fault is to come: everything accepted gets through, unless the journal has failed."""
        self.stage.disk.capacity_bytes = None
        self.stage.disk.failing_flushes = 0
        self.settle_wholly()
        journal = self.stage.journal
        if journal.failure is not None:
            return
        assert not journal.is_disk_full
        assert not any(sent.is_open for sent in self.sent), "an append is never answered"
        assert not self.reads_open, "a read is never answered"
        for model in self.living():
            log = journal.log(model.partition_id)
            assert log.high_watermark == log.end_offset

    @rule(is_asked=st.booleans())
    def checkpoint(self, is_asked: bool) -> None:
        if is_asked:
            self.stage.journal.checkpointer.begin_checkpoint()
        else:
            self.stage.advance(SMALL.checkpoint_interval_ms + MARGIN_MS)

    # -- ends and starts

    @rule(
        how=st.sampled_from(["crash", "crash at work", "crash at the start", "crash at the stop", "kill", "stop"]),
        changes=st.integers(0, 5),
        seed=st.integers(0, 10_000),
    )
    def end(self, how: str, changes: int, seed: int) -> None:
        """One way or another the process ends, and another one begins."""
        match how:
            case "stop":
                self.restart()
            case "kill":
                self.kill(changes)
            case _:
                self.crash(seed, changes, how.removeprefix("crash"))

    def crash(self, seed: int, changes: int, moment: str = "") -> None:
        """The power goes: between two steps, in the middle of some work or of a stop, or again during the start."""
        disk = self.stage.disk
        disk.changes_until_power_loss = changes if moment in (" at work", " at the stop") else None
        if moment == " at work":
            self.stage.steps.work()
        if moment == " at the stop":
            self.stage.close()
        self.stage.crash(Random(seed))
        if moment == " at the start":
            disk.changes_until_power_loss = changes
            with contextlib.suppress(StorageError):
                recover(disk, DIRECTORY, self.stage.settings)
            disk.crash(Random(seed + 1))
        self.reopen()

    def kill(self, changes: int) -> None:
        """The process dies, perhaps in the middle of some work; the system lives on, and so does what was written."""
        disk = self.stage.disk
        disk.changes_until_power_loss = changes
        self.stage.steps.work()
        disk.changes_until_power_loss = None
        self.stage.journal.abort()
        self.reopen()

    def restart(self) -> None:
        """A stop as it should be; it leaves nothing to repair unless the disk was at fault."""
        self.stage.disk.failing_flushes = 0
        journal = self.close()
        self.reopen()
        if journal.failure is None and not journal.is_disk_full and self.stage.disk.capacity_bytes is None:
            assert self.stage.journal.recovery.was_clean, self.stage.journal.recovery.sentences()

    # -- what must hold

    @invariant()
    def what_users_see_is_sound(self) -> None:
        journal = self.stage.journal
        journal.check_invariants()
        is_flushed = journal.flushed_position == journal.position and not self.stage.turns
        for model in self.models.values():
            model.is_surely_deleted |= model.is_deleted and is_flushed
        for model in self.living():
            log = journal.log(model.partition_id)
            bounds = log.start_offset, log.high_watermark
            before = self.bounds.get(model.partition_id, bounds)
            assert bounds[0] >= before[0], "the log starts earlier than before"
            assert bounds[1] >= before[1], "what was visible is not any more"
            self.bounds[model.partition_id] = bounds
            if not model.receive_qos:
                model.safe_end = max(model.safe_end, bounds[1])
            if is_flushed:
                model.start_min = log.start_offset
        for partition_id, (log, _) in self.watched.items():
            assert self.told_watermark[partition_id] == log.high_watermark, "who watches was not told"
        for views, contents in self.held:
            assert views == contents, "what a reader holds has changed"
        for client in self.clients:
            client.settle()

    def teardown(self) -> None:
        if not hasattr(self, "stage"):
            return
        self.stage.disk.capacity_bytes = None
        self.stage.disk.failing_flushes = 0
        self.stage.crash(Random(1))
        self.reopen()
        for client in self.clients:
            if client.has_failed:
                self.send_again(client)
        self.heal()
        self.what_users_see_is_sound()
        assert not any(client.unacknowledged for client in self.clients)
        for model in self.living():
            self.check_contents(model)
        self.close()
        assert [problem for problem in self.stage.problems() if "set-aside" not in problem] == []

    def reopen(self) -> None:
        self.stage.disk.failing_flushes = 0
        journal = self.stage.open()
        for client in self.clients:
            client.lose_connection()
        for model in list(self.models.values()):
            if model.is_deleted and model.partition_id not in journal.log_ids():
                del self.models[model.partition_id]
                continue
            assert not model.is_surely_deleted, "a log is back that was deleted"
            log = journal.log(model.partition_id)
            assert log.end_offset >= model.safe_end, "an acknowledged record is lost"
            given_up = model.start_max
            while model.is_keyed and given_up < log.start_offset and model.may_be_gone(given_up):
                given_up += 1  # what cleaning took leaves no trace where a whole segment went with it
            assert log.start_offset <= given_up, "records went that nobody gave up"
            model.start_max = max(model.start_max, log.start_offset)
            assert log.start_offset >= model.start_min, "records are back that were given up"
            model.forget_from(log.end_offset)
            self.check_contents(model)
            if model.is_deleted:  # the word of it was not on disk: whoever keeps the catalogue deletes it again
                journal.delete_log(model.partition_id)
        spoiled = [repair for repair in journal.recovery.repairs if "/checkpoint: the checkpoint" in repair]
        assert not spoiled, "a checkpoint is replaced whole or not at all"
        if journal.recovery.repairs or journal.recovery.scanned_bytes:
            journal.checkpointer.begin_checkpoint()
        self.begin_session()

    def close(self) -> Journal:
        """A stop as it should be. Whatever was mapped is given back, but for what readers still hold."""
        journal = self.stage.journal
        self.stage.close()
        cache = journal._parts.cache
        assert cache.regions_live == 0
        self.held.clear()
        assert cache.escaped_bytes == 0, "a region that nobody holds is not given back"
        return journal

    def check_contents(self, model: LogModel) -> None:
        log = self.stage.journal.log(model.partition_id)
        found = read_all(self.stage, log, max_bytes=700)
        model.check_found(found, log.start_offset, log.high_watermark)
        if model.is_keyed:
            model.check_newest(found, log.high_watermark)
        for client in self.clients:
            values = [value or b"" for _, key, value in found if key == b"%d" % client.producer_id]
            assert values == sorted(values), "batches were written out of order"

    # -- helpers

    def model(self, partition_id: int) -> LogModel:
        return self.models[self.short_lived if partition_id == SHORT_LIVED else partition_id]

    def log(self, partition_id: int) -> PartitionLog:
        return self.stage.journal.log(self.model(partition_id).partition_id)

    def living(self) -> list[LogModel]:
        return [model for model in self.models.values() if not model.is_deleted]

    def new_value(self, size: int) -> bytes:
        self.counter += 1
        return b"%06d" % self.counter + b"." * size  # no zeros: they would look like a sector that was lost

    def settle_wholly(self) -> None:
        self.stage.settle()
        self.stage.advance(SMALL.lazy_flush_interval_ms + MARGIN_MS)
        self.stage.settle()
        self.stage.advance(SMALL.shortage_retry_ms + MARGIN_MS)
        self.stage.settle()

    def send_again(self, client: Client) -> None:
        for batch in list(client.unacknowledged):
            batch.sent = self.send(self.models[client.partition_id], batch.records, client.qos, client, batch.sequence)

    def send(
        self, model: LogModel, records: list[Record], qos: Qos, client: Client | None = None, sequence: int = -1
    ) -> Sent:
        log = self.stage.journal.log(model.partition_id)
        content = batch_of(records, client, sequence)
        self.sends += 1
        sent = Sent(records, qos, self.sends)

        def told(outcome: Appended | HutongError) -> None:
            assert sent.outcome is None, "told twice"
            sent.outcome = outcome
            if sent.is_placed:
                self.check_acknowledgement(sent, model, log)

        base_offset = log.end_offset
        append_batch(log, content, qos, told)
        if log.end_offset > base_offset:
            model.put(base_offset, records, len(content))
            if client is not None and client.is_transactional:
                model.account.put_data(base_offset, client.producer_id, len(records))
            sent.is_new = True
        sent.is_placed = True
        self.check_acknowledgement(sent, model, log)
        self.sent = [other for other in self.sent if other.is_open]
        self.sent.append(sent)
        return sent

    def check_acknowledgement(self, sent: Sent, model: LogModel, log: PartitionLog) -> None:
        if not isinstance(sent.outcome, Appended):
            return
        first, last = sent.outcome.base_offset, sent.outcome.base_offset + len(sent.records)
        assert [model.placed.get(offset) for offset in range(first, last)] == sent.records, "acknowledged elsewhere"
        if sent.qos <= Qos.RECEIVE:
            return
        assert self.stage.journal.failure is None, "acknowledged after the journal had failed"
        assert log.high_watermark >= last, "acknowledged before it was visible"
        model.safe_end = max(model.safe_end, last)
        if sent.is_new:
            assert self.told_last[sent.qos] < sent.number, "acknowledgements overtake each other"
            self.told_last[sent.qos] = sent.number
