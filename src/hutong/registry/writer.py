"""The one writer of a schema registry: one change after the other, each decided, recorded, and applied once durable.

Strategy: changes wait for each other, and each is decided by a state that has all of the log. Others may write to the
topic as well: a change that finds so when it is recorded is decided anew.

Decides nothing: `machine` and `checks` do. Knows no HTTP and no other nodes.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from hutong.foundation.errors import Refused
from hutong.registry.changes import (
    Change,
    ChangeAnswer,
    DeleteSubject,
    DeleteVersion,
    RegisterSchema,
    SetLevel,
    SetMode,
)
from hutong.registry.machine import RegistryMachine
from hutong.registry.records import RawRecord
from hutong.registry.service import RegistryService
from hutong.registry.values import Mode, NotRecorded, RegistryCode

ATTEMPTS_MAX: Final = 10


class WritableLog(Protocol):
    """The topic of schemas, to be written to."""

    async def settled(self) -> RegistryMachine:
        """The state with all that is in the log, none of it still on its way. Raises Refused, NotRecorded elsewhere."""
        ...

    async def append(self, records: Sequence[RawRecord]) -> None:
        """Record what the state of `settled` says, and return once that is durable and applied.

        Raises NotRecorded where the log has changed since, and UnknownOutcome.
        """
        ...


class RegistryWriter:
    """Carries out changes on the node that writes; all calls come on the loop. Raises Refused with a RegistryCode."""

    def __init__(self, log: WritableLog, service: RegistryService) -> None:
        self._log = log
        self._service = service
        self._changing = asyncio.Lock()

    async def carry_out(self, change: Change) -> ChangeAnswer:
        async with self._changing:
            for _ in range(ATTEMPTS_MAX):
                machine = await self._log.settled()
                records, answer = await self._decide(machine, change)
                try:
                    if records:
                        await self._log.append(records)
                except NotRecorded:
                    continue  # another client has written to the topic, or another node leads it now
                return answer
            raise NotRecorded("Others write to the topic of schemas all the time; try again.")

    async def _decide(self, machine: RegistryMachine, change: Change) -> tuple[list[RawRecord], ChangeAnswer]:
        match change:
            case RegisterSchema():
                return await self._register(machine, change)
            case DeleteSubject(subject, is_permanent):
                records, numbers = machine.delete_subject(subject, is_permanent=is_permanent)
                return records, ChangeAnswer(versions=tuple(numbers))
            case DeleteVersion(subject, number, is_permanent):
                records, found = machine.delete_version(subject, number, is_permanent=is_permanent)
                return records, ChangeAnswer(version=found.version)
            # A setting that is removed is answered by what it was, or by what holds now.
            case SetLevel(scope, level):
                level_now = level or machine.own_level(scope) or machine.level(None)
                return machine.set_level(scope, level), ChangeAnswer(setting=level_now.value)
            case SetMode(scope, mode, is_forced):
                mode_now = mode or machine.own_mode(scope) or machine.mode(None)
                return machine.set_mode(scope, mode, is_forced=is_forced), ChangeAnswer(setting=mode_now.value)

    async def _register(self, machine: RegistryMachine, asked: RegisterSchema) -> tuple[list[RawRecord], ChangeAnswer]:
        schema = await self._service.understood(machine, asked.subject, asked.text, asked.normalize)
        machine.check_writable(asked.subject)
        if machine.mode(asked.subject) is not Mode.IMPORT and machine.find(asked.subject, schema.text) is None:
            earlier = machine.live_versions(asked.subject)
            troubles = await self._service.troubles(machine, asked.subject, schema, earlier)
            if troubles:
                raise incompatible(asked.subject, troubles)
        records, made = machine.register(asked.subject, schema.text, asked.id, asked.version)
        return records, ChangeAnswer(made.id, made.version)


def incompatible(subject: str, troubles: Sequence[str]) -> Refused:
    return Refused(
        RegistryCode.INCOMPATIBLE,
        "Schema being registered is incompatible with an earlier schema for subject "
        f'"{subject}", details: [{"; ".join(troubles)}]',
    )
