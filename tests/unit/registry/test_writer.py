"""The one writer: what others write to the topic while it decides."""

from collections.abc import Sequence

import pytest
from tests.support.schema_registry import ListedLog

from hutong.registry.changes import ChangeAnswer, RegisterSchema
from hutong.registry.records import RawRecord, schema_record
from hutong.registry.service import RegistryService
from hutong.registry.values import NotRecorded, SchemaText, SchemaVersion
from hutong.registry.writer import ATTEMPTS_MAX, RegistryWriter
from hutong.runtime.threads.offload import InlineOffload

INT = SchemaText("AVRO", '"int"')


class ContendedLog(ListedLog):
    """Each of the first appends finds that another client has been faster."""

    def __init__(self, contended: int) -> None:
        super().__init__()
        self.contended = contended
        self.attempts = 0

    async def append(self, records: Sequence[RawRecord]) -> None:
        self.attempts += 1
        if self.attempts <= self.contended:
            taken = SchemaVersion(
                f"other-{self.attempts}", 1, self.attempts, SchemaText("AVRO", f'"fixed{self.attempts}"')
            )
            self.records.append(schema_record(taken))
            raise NotRecorded("The topic has changed.")
        await super().append(records)


def writer_of(log: ListedLog) -> RegistryWriter:
    return RegistryWriter(log, RegistryService(log, InlineOffload()))


async def test_a_change_is_decided_anew_by_what_is_there() -> None:
    log = ContendedLog(3)
    assert await writer_of(log).carry_out(RegisterSchema("s", INT)) == ChangeAnswer(4, 1)
    assert [version.id for version in log.machine.every()] == [1, 2, 3, 4]


async def test_attempts_have_a_bound() -> None:
    log = ContendedLog(1_000)
    with pytest.raises(NotRecorded):
        await writer_of(log).carry_out(RegisterSchema("s", INT))
    assert log.attempts == ATTEMPTS_MAX
