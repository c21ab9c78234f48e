"""The promises of transactions: all of one or nothing, nothing aborted for committed readers, one owner for an id.

Strategy: linear in the history. Values know their transaction. The final read of everything shows what is stored, the
committed one what counts. A transaction whose end nobody heard of may have ended either way, but not in parts.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from hutong.testing.simulation.history import (
    FinalRead,
    Happening,
    ProducerInitialised,
    SimulationHistory,
    TransactionEnded,
    ValueAcknowledged,
    ValueRead,
    ValueSent,
)
from hutong.testing.simulation.history_text import Place


def check_transactions(history: SimulationHistory) -> list[str]:
    """The promises that were broken, a sentence for each."""
    return list(_TransactionCheck(history.happenings).errors())


class _TransactionCheck:
    def __init__(self, happenings: Iterable[Happening]) -> None:
        self.transaction_of: dict[bytes, str] = {}
        self.acknowledged: dict[str, list[bytes]] = defaultdict(list)
        self.ends: dict[str, TransactionEnded] = {}
        self.committed_reads: list[ValueRead] = []
        self.sent_us: dict[bytes, int] = {}
        self.answers: list[tuple[str, int, str]] = []  # (client, when it asked, what succeeded)
        self.owners: dict[str, list[ProducerInitialised]] = defaultdict(list)  # by transactional id
        self.stored: dict[Place, FinalRead] = {}
        self.committed: dict[Place, FinalRead] = {}
        for each in happenings:
            match each:
                case ValueSent(transaction=str(transaction)):
                    self.transaction_of[each.value] = transaction
                    self.sent_us[each.value] = each.at_us
                case ValueAcknowledged() if each.value in self.transaction_of:
                    self.acknowledged[self.transaction_of[each.value]].append(each.value)
                    self.answers.append((each.client, self.sent_us[each.value], f"{each.value!r}"))
                case TransactionEnded():
                    self.ends[each.transaction] = each
                    if each.is_certain and each.is_commit:
                        self.answers.append((each.client, each.begun_us, f"the commit of {each.transaction}"))
                case ValueRead(is_committed=True):
                    self.committed_reads.append(each)
                case FinalRead():
                    (self.committed if each.is_committed else self.stored)[each.place] = each
                case ProducerInitialised():
                    self.owners[each.transactional_id].append(each)
        self.visible = {value for final in self.committed.values() for _, value in final.records}

    def errors(self) -> Iterator[str]:
        yield from self._nothing_aborted_is_read()
        yield from self._all_or_nothing()
        yield from self._committed_readers_miss_nothing()
        yield from self._nobody_fenced_is_heard()

    def _nothing_aborted_is_read(self) -> Iterator[str]:
        for read in self.committed_reads:
            if self._is_aborted(read.value):
                yield f"{read.client} read {read.value!r} of {self.transaction_of[read.value]}, which was aborted"
        for value in sorted(self.visible):
            if self._is_aborted(value):
                yield f"{value!r} of {self.transaction_of[value]}, which was aborted, is there for committed readers"

    def _all_or_nothing(self) -> Iterator[str]:
        for transaction, values in self.acknowledged.items():
            end = self.ends.get(transaction)
            missing = [value for value in values if value not in self.visible]
            if end is not None and end.is_certain and end.is_commit:
                if missing:
                    yield f"{transaction} was committed, and {missing[0]!r} is not there"
            elif missing and len(missing) < len(values):
                yield f"a part of {transaction} is there: {missing[0]!r} is not"

    def _committed_readers_miss_nothing(self) -> Iterator[str]:
        """Committed readers see the same records in the same order, less the aborted ones."""
        for place, final in self.committed.items():
            all_records = self.stored[place].records if place in self.stored else ()
            shown = set(final.records)
            expected = [record for record in all_records if record[1] not in self.transaction_of or record in shown]
            if list(final.records) != [record for record in expected if record[0] >= final.start_offset]:
                yield f"the committed records of {place[0]}-{place[1]} are not those that are stored, less the aborted"

    def _nobody_fenced_is_heard(self) -> Iterator[str]:
        """A producer whose transactional id has another owner since: nothing succeeds that it asks for then."""
        ids = {each.client: name for name, owners in self.owners.items() for each in owners}
        for client, asked_us, what in self.answers:
            owners = self.owners[ids.get(client, "")]
            own_us = max((each.at_us for each in owners if each.client == client and each.at_us <= asked_us), default=0)
            for each in owners:
                if each.client != client and each.begun_us > own_us and each.at_us < asked_us:
                    yield f"{what} of {client} succeeded although {each.client} has {each.transactional_id} since"
                    break

    def _is_aborted(self, value: bytes) -> bool:
        end = self.ends.get(self.transaction_of.get(value, ""))
        return end is not None and end.is_certain and not end.is_commit
