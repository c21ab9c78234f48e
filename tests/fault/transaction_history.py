"""The histories of `journal_history` with transactions in them: producers that write in some, markers that end them.

After every step: the log tells of its transactions what a plain account of all that was appended says. What was stable
stays so through every crash, and a committed reader never sees what was aborted, or is not decided yet.
"""

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from tests.fault.journal_history import KEYED, KEYS, RECEIVE, JournalHistory
from tests.fault.journal_model import Client, LogModel
from tests.fault.transaction_model import read_committed

from hutong.foundation.errors import HutongError
from hutong.journal.append.qos import Qos
from hutong.wire.kafka.batch.records import Record

TRANSACTIONS = 6
writers = st.integers(0, 4)


class TransactionHistory(JournalHistory):
    grows_old = False

    def begin_more(self) -> None:
        self.models[TRANSACTIONS] = LogModel(TRANSACTIONS)
        self.writers = [
            Client(80, TRANSACTIONS, Qos.ALL, is_transactional=True),
            Client(81, TRANSACTIONS, Qos.ALL, is_transactional=True),
            Client(82, RECEIVE, Qos.ALL, is_transactional=True),
            Client(83, KEYED, Qos.ALL, is_transactional=True),
            Client(84, KEYED, Qos.ALL, is_transactional=True),
        ]
        self.clients += self.writers
        self.stable: dict[int, int] = {}  # what committed readers could see

    @rule(number=writers, count=st.integers(1, 3), size=st.sampled_from([30, 30, 500]))
    def write(self, number: int, count: int, size: int) -> None:
        """A transactional producer sends a batch, or again what failed."""
        client = self.writers[number]
        if client.has_failed:
            self.send_again(client)
        elif client.has_room:
            key = KEYS[count - 1] if client.partition_id == KEYED else b"%d" % client.producer_id
            timestamp_ms = self.stage.clock.wall_ms()
            records = [Record(timestamp_ms=timestamp_ms, key=key, value=self.new_value(size)) for _ in range(count)]
            batch = client.add(records)
            batch.sent = self.send(self.models[client.partition_id], records, client.qos, client, batch.sequence)

    @rule(number=writers, is_commit=st.booleans(), is_new_epoch=st.booleans())
    def end_transaction(self, number: int, is_commit: bool, is_new_epoch: bool) -> None:
        """The coordinator writes a marker, with the producer's next epoch (KIP-890) or with the one that it has."""
        client = self.writers[number]
        if is_new_epoch:
            client.renew()
        model = self.models[client.partition_id]
        log = self.stage.journal.log(client.partition_id)
        offset = log.end_offset

        def told(error: HutongError | None) -> None:
            if error is None:
                model.safe_end = max(model.safe_end, offset + 1)

        log.append_marker(client.producer_id, client.epoch, is_commit=is_commit, coordinator_epoch=0, then=told)
        if log.end_offset > offset:
            turn_ms = self.stage.journal.writer.wall_ms  # all that one turn brings carries the same
            model.put_marker(offset, client.producer_id, is_commit=is_commit, timestamp_ms=turn_ms)

    @rule(partition_id=st.sampled_from([TRANSACTIONS, RECEIVE, KEYED]), max_bytes=st.sampled_from([300, 1 << 20]))
    def read_as_committed(self, partition_id: int, max_bytes: int) -> None:
        self.stage.settle()
        self.check_committed(self.models[partition_id], max_bytes)

    @rule(back=st.integers(0, 8))
    def trim(self, back: int) -> None:
        self.delete_before(TRANSACTIONS, back)

    @invariant()
    def transactions_are_as_they_were_written(self) -> None:
        for model in self.living():
            log = self.stage.journal.log(model.partition_id)
            model.account.check(log, is_cleaned=model.is_keyed)
            stable_offset = log.last_stable_offset
            if not model.receive_qos:
                assert stable_offset >= self.stable.get(model.partition_id, 0), "what was decided is open again"
                if stable_offset > log.start_offset:  # else the start, which a crash may take back, says so
                    self.stable[model.partition_id] = stable_offset

    def check_contents(self, model: LogModel) -> None:
        super().check_contents(model)
        self.check_committed(model, 700)

    def check_committed(self, model: LogModel, max_bytes: int) -> None:
        log = self.stage.journal.log(model.partition_id)
        found = read_committed(self.stage, log, max_bytes)
        model.account.check_committed(found, log)
        aborted, markers = model.account.aborted_offsets(), model.account.markers()
        seen = {offset for offset, _, _ in found}
        for offset in range(log.start_offset, log.last_stable_offset):
            is_shown = offset in seen or offset in aborted or offset in markers
            assert is_shown or (model.is_keyed and model.may_be_gone(offset)), "a committed record is not shown"
