"""A schema registry that is read: schemas found and compared by the state of this moment.

Strategy: a request first sees all that the topic has here. Parsing and comparing go to a worker.

Decides nothing: `machine` and `checks` do. Knows no HTTP.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from hutong.foundation.errors import LimitExceeded, Refused
from hutong.registry import names
from hutong.registry.changes import RegisterSchema
from hutong.registry.checks import Comparison, ResolvedText, SchemaChecks
from hutong.registry.figures import RegistryFigures, SchemaCounts
from hutong.registry.imports import resolved
from hutong.registry.machine import RegistryMachine
from hutong.registry.reading import WrittenBySchema
from hutong.registry.values import RegistryCode, SchemaText, SchemaVersion
from hutong.runtime.threads.offload import Offload, run

CANONICAL_MAX: Final = 1_000
UNDERSTOOD_MAX: Final = 200
T = TypeVar("T")


class SchemaLog(Protocol):
    """The topic of schemas. `machine` has all that `catch_up` has read."""

    @property
    def machine(self) -> RegistryMachine: ...

    async def catch_up(self) -> None:
        """Read what is new. Raises Refused where this node cannot."""
        ...

    async def refreshed(self) -> bool:
        """Read what only the node that writes may have as yet; True if that was something. Raises Refused."""
        ...


class RegistryService:
    """Answers requests; all calls come on the loop. Each raises Refused with a RegistryCode.

    Figures: `figures`, and `counts` of what this node has read of the topic.
    """

    def __init__(self, log: SchemaLog, workers: Offload) -> None:
        self._log = log
        self._workers = workers
        self.figures = RegistryFigures()
        self._checks = SchemaChecks()
        self._understood: OrderedDict[ResolvedText, WrittenBySchema] = OrderedDict()
        self._canonical: OrderedDict[tuple[ResolvedText, bool], SchemaText] = OrderedDict()

    @property
    def counts(self) -> SchemaCounts:
        return self._log.machine.counts

    async def state(self) -> RegistryMachine:
        """The state, with all that is recorded by now."""
        await self._log.catch_up()
        return self._log.machine

    async def refreshed(self) -> bool:
        """Read what only the node that writes may have as yet; True if that was something. Raises Refused."""
        return await self._log.refreshed()

    async def registered(self, asked: RegisterSchema) -> SchemaVersion | None:
        """The version that a subject has of this schema already, as far as this node knows."""
        machine = await self.state()
        try:
            schema = await self.understood(machine, asked.subject, asked.text, asked.normalize)
        # Perhaps it imports what another node has just recorded: the writer refuses it, if need be.
        except Refused:
            return None
        return None if asked.id is not None else machine.find(asked.subject, schema.text)

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
        schema = await self.understood(machine, subject, text, normalize)
        found = machine.find(subject, schema.text, with_deleted=with_deleted)
        if found is None:
            raise Refused(RegistryCode.SCHEMA_NOT_FOUND, "Schema not found")
        return found

    async def written_by(self, text: SchemaText, context: str) -> WrittenBySchema:
        """The schema, understood with what it imports. Raises Refused."""
        given = resolved(await self.state(), text, context)
        known = self._understood.get(given)
        if known is None:
            known = self._understood[given] = await self._worked(partial(WrittenBySchema, given, self._checks))
            if len(self._understood) > UNDERSTOOD_MAX:
                self._understood.popitem(last=False)
        return known

    async def writers(self, ids: Collection[int]) -> dict[int, WrittenBySchema]:
        """The schemas of these ids that are there and understood, to read what they have written."""
        machine = await self.state()
        found: dict[int, WrittenBySchema] = {}
        for schema_id in ids:
            try:
                text = machine.text(names.DEFAULT_CONTEXT, schema_id)
                found[schema_id] = await self.written_by(text, names.DEFAULT_CONTEXT)
            # An id that a producer made up, or a schema that another registry has left.
            except Refused:
                continue
        return found

    async def compare(
        self, subject: str, text: SchemaText, number: int | None, *, is_all: bool, normalize: bool = False
    ) -> list[str]:
        """The troubles of a schema with one version, or with those that the level asks for."""
        machine = await self.state()
        schema = await self.understood(machine, subject, text, normalize)
        if is_all:
            return await self.troubles(machine, subject, schema, machine.live_versions(subject))
        return await self.troubles(machine, subject, schema, [machine.version(subject, number)])

    # Steps of the above, and of the writer.

    async def understood(
        self, machine: RegistryMachine, subject: str, text: SchemaText, normalize: bool
    ) -> ResolvedText:
        """The schema with the text that is kept."""
        given = resolved(machine, text, names.split(subject)[0])
        key = given, normalize
        known = self._canonical.get(key)
        if known is not None:
            self.figures.known_total += 1
        else:
            self.figures.parsed_total += 1
            known = await self._worked(lambda: self._checks.canonical(given, normalize=normalize))
            self._canonical[key] = known
            if len(self._canonical) > CANONICAL_MAX:
                self._canonical.popitem(last=False)
        return ResolvedText(known, given.imports)

    async def troubles(
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
