"""A schema registry at work: one change after the other, each decided, recorded, and applied once it is durable.

Strategy: changes wait for each other, so each is decided by a state that no other change is about to alter. Parsing and
comparing go to a worker. A request first sees all that the topic has, also from other writers.

Decides nothing: `machine` and `checks` do. Knows no HTTP.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from hutong.foundation.errors import LimitExceeded, Refused
from hutong.registry import names
from hutong.registry.checks import Comparison, ResolvedText, SchemaChecks
from hutong.registry.imports import resolved
from hutong.registry.machine import RegistryMachine
from hutong.registry.records import RawRecord
from hutong.registry.values import (
    Compatibility,
    Mode,
    RegistryCode,
    SchemaText,
    SchemaVersion,
)
from hutong.runtime.threads.offload import Offload, run

CANONICAL_MAX: Final = 1_000
T = TypeVar("T")


class SchemaLog(Protocol):
    """The topic of schemas. `machine` has all that `catch_up` has read."""

    @property
    def machine(self) -> RegistryMachine: ...

    async def catch_up(self) -> None:
        """Read what is new. Raises Refused where this node cannot."""
        ...

    async def append(self, records: Sequence[RawRecord]) -> None:
        """Record changes, and return once they are durable and applied. Raises Refused."""
        ...


@dataclass(frozen=True, slots=True)
class NewSchema:
    """A request to register a schema. Id and version are given in mode IMPORT alone."""

    subject: str
    text: SchemaText
    normalize: bool = False
    id: int | None = None
    version: int | None = None


class RegistryService:
    """Answers requests; all calls come on the loop. Each raises Refused with a RegistryCode."""

    def __init__(self, log: SchemaLog, workers: Offload) -> None:
        self._log = log
        self._workers = workers
        self._checks = SchemaChecks()
        self._changing = asyncio.Lock()
        self._canonical: OrderedDict[tuple[ResolvedText, bool], SchemaText] = OrderedDict()

    async def state(self) -> RegistryMachine:
        """The state, with all that is recorded by now."""
        await self._log.catch_up()
        return self._log.machine

    async def register(self, asked: NewSchema) -> SchemaVersion:
        """The version of a schema under its subject: the one that is there, or a new one."""
        machine = await self.state()
        schema = await self._understood(machine, asked.subject, asked.text, asked.normalize)
        found = machine.find(asked.subject, schema.text)
        # Most registrations are those of producers that start again.
        if found is not None and asked.id is None:
            return found
        async with self._changing:
            machine = await self.state()
            machine.check_writable(asked.subject)
            if machine.mode(asked.subject) is not Mode.IMPORT and machine.find(asked.subject, schema.text) is None:
                troubles = await self._troubles(machine, asked.subject, schema, machine.live_versions(asked.subject))
                if troubles:
                    raise incompatible(asked.subject, troubles)
            records, made = machine.register(asked.subject, schema.text, asked.id, asked.version)
            await self._record(records)
            return made

    async def serialized(self, text: SchemaText, context: str) -> SchemaText:
        """A Protobuf schema as a descriptor in base64, for clients that read no text; any other one as it is."""
        if text.schema_type != "PROTOBUF":
            return text
        given = resolved(self._log.machine, text, context)
        return await self._worked(lambda: self._checks.serialized(given))

    async def find(
        self, subject: str, text: SchemaText, *, normalize: bool = False, with_deleted: bool = False
    ) -> SchemaVersion:
        """The version of a subject that has this schema."""
        machine = await self.state()
        machine.versions(subject, with_deleted=with_deleted)
        schema = await self._understood(machine, subject, text, normalize)
        found = machine.find(subject, schema.text, with_deleted=with_deleted)
        if found is None:
            raise Refused(RegistryCode.SCHEMA_NOT_FOUND, "Schema not found")
        return found

    async def compare(
        self, subject: str, text: SchemaText, number: int | None, *, is_all: bool, normalize: bool = False
    ) -> list[str]:
        """The troubles of a schema with one version, or with those that the level asks for."""
        machine = await self.state()
        schema = await self._understood(machine, subject, text, normalize)
        if is_all:
            return await self._troubles(machine, subject, schema, machine.live_versions(subject))
        return await self._troubles(machine, subject, schema, [machine.version(subject, number)])

    async def delete_subject(self, subject: str, *, is_permanent: bool) -> list[int]:
        async with self._changing:
            records, numbers = (await self.state()).delete_subject(subject, is_permanent=is_permanent)
            await self._record(records)
            return numbers

    async def delete_version(self, subject: str, number: int | None, *, is_permanent: bool) -> int:
        async with self._changing:
            records, found = (await self.state()).delete_version(subject, number, is_permanent=is_permanent)
            await self._record(records)
            return found.version

    async def set_level(self, scope: str | None, level: Compatibility | None) -> Compatibility:
        """Set a level, or remove it for None; returns the one that was removed, or that holds now."""
        async with self._changing:
            machine = await self.state()
            before = machine.own_level(scope)
            await self._record(machine.set_level(scope, level))
            return level or before or machine.level(None)

    async def set_mode(self, scope: str | None, mode: Mode | None, *, is_forced: bool = False) -> Mode:
        """The same of a mode."""
        async with self._changing:
            machine = await self.state()
            before = machine.own_mode(scope)
            await self._record(machine.set_mode(scope, mode, is_forced=is_forced))
            return mode or before or machine.mode(None)

    # Steps of the above.

    async def _record(self, records: Sequence[RawRecord]) -> None:
        if records:
            await self._log.append(records)

    async def _understood(
        self, machine: RegistryMachine, subject: str, text: SchemaText, normalize: bool
    ) -> ResolvedText:
        """The schema with the text that is kept."""
        given = resolved(machine, text, names.split(subject)[0])
        key = given, normalize
        known = self._canonical.get(key)
        if known is None:
            known = await self._worked(lambda: self._checks.canonical(given, normalize=normalize))
            self._canonical[key] = known
            if len(self._canonical) > CANONICAL_MAX:
                self._canonical.popitem(last=False)
        return ResolvedText(known, given.imports)

    async def _troubles(
        self, machine: RegistryMachine, subject: str, schema: ResolvedText, versions: Sequence[SchemaVersion]
    ) -> list[str]:
        level = machine.level(subject)
        needed = versions if level.is_transitive else versions[-1:]
        context = names.split(subject)[0]
        earlier = [(each.version, resolved(machine, each.text, context)) for each in needed]
        return await self._worked(lambda: self._checks.troubles(schema, Comparison(level, earlier)))

    async def _worked(self, work: Callable[[], T]) -> T:
        try:
            return await run(self._workers, work)
        except LimitExceeded:
            raise Refused(RegistryCode.TIMED_OUT, "Too many schemas are being checked; try again.") from None


def incompatible(subject: str, troubles: Sequence[str]) -> Refused:
    return Refused(
        RegistryCode.INCOMPATIBLE,
        "Schema being registered is incompatible with an earlier schema for subject "
        f'"{subject}", details: [{"; ".join(troubles)}]',
    )
