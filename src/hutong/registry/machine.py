"""Subjects, versions, ids, levels and modes of a schema registry: what records say, and what requests may change.

Strategy: the state is the replayed topic. A decision returns the records that make it so; `apply` of a durable record
is the only change. One schema has one id in its context, in however many subjects it is. An id is never given twice
while a version has it.

Knows nothing of formats: schemas are texts, parsed and compared elsewhere. Knows no HTTP, clock or log.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from hutong.foundation.errors import Refused
from hutong.registry import names
from hutong.registry.figures import SchemaCounts
from hutong.registry.records import (
    ConfigStored,
    ModeStored,
    RawRecord,
    SchemaStored,
    StoredChange,
    SubjectDeleted,
    config_record,
    delete_subject_record,
    mode_record,
    schema_record,
    schema_tombstone,
)
from hutong.registry.values import (
    ID_MAX,
    Compatibility,
    Mode,
    RegistryCode,
    SchemaText,
    SchemaVersion,
)

DEFAULT_LEVEL: Final = Compatibility.BACKWARD
_Setting = TypeVar("_Setting", Compatibility, Mode)


class _Context:
    """Ids of one context: their schemas, and the versions that have them."""

    __slots__ = ("by_text", "last_id", "texts", "users")

    def __init__(self) -> None:
        self.last_id = 0
        self.texts: dict[int, SchemaText] = {}
        self.by_text: dict[SchemaText, int] = {}
        self.users: dict[int, set[tuple[str, int]]] = {}  # subject and version


class RegistryMachine:
    """Invariant: each version's id has the version among its users, and no other id has."""

    def __init__(self) -> None:
        self._subjects: dict[str, dict[int, SchemaVersion]] = {}
        self._contexts: dict[str, _Context] = {}
        self._levels: dict[str | None, Compatibility] = {}
        self._modes: dict[str | None, Mode] = {}
        self._live: Counter[tuple[str, int]] = Counter()  # versions that are not deleted, by subject and id
        self._referenced: dict[tuple[str, int], set[tuple[str, int]]] = {}  # by whom, softly deleted ones among them

    # The topic.

    def apply(self, change: StoredChange) -> None:
        """Take a durable record."""
        match change:
            case SchemaStored(subject, number, version):
                self._remove(subject, number)
                if version is not None:
                    self._add(version)
            case ConfigStored(subject, level):
                _set(self._levels, subject, None if level not in Compatibility.__members__ else Compatibility(level))
            case ModeStored(subject, mode):
                _set(self._modes, subject, None if mode not in Mode.__members__ else Mode(mode))
            case SubjectDeleted(subject, last):
                for each in list(self._subjects.get(subject, {}).values()):
                    if each.version <= last and not each.is_deleted:
                        self._remove(subject, each.version)
                        self._add(_deleted(each))

    # Questions.

    @property
    def counts(self) -> SchemaCounts:
        live = [subject for (subject, _), count in self._live.items() if count]
        schemas = sum(len(context.texts) for context in self._contexts.values())
        return SchemaCounts(len(set(live)), self._live.total(), schemas)

    @property
    def contexts(self) -> list[str]:
        return sorted({names.DEFAULT_CONTEXT, *self._contexts})

    def subjects(self, *, with_deleted: bool = False, only_deleted: bool = False) -> list[str]:
        """Names in order; of those with a version that is not deleted, or as asked."""
        found = []
        for subject, versions in self._subjects.items():
            is_live = any(not each.is_deleted for each in versions.values())
            if (with_deleted and not only_deleted) or is_live is not only_deleted:
                found.append(subject)
        return sorted(found)

    def versions(self, subject: str, *, with_deleted: bool = False, only_deleted: bool = False) -> list[SchemaVersion]:
        """In order. Raises Refused where there is none."""
        every = self._subjects.get(subject, {})
        found = [
            each
            for _, each in sorted(every.items())
            if (with_deleted and not only_deleted) or each.is_deleted is only_deleted
        ]
        if not found:
            raise Refused(RegistryCode.SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")
        return found

    def live_versions(self, subject: str) -> list[SchemaVersion]:
        """In order; none where there is no such subject."""
        return [each for _, each in sorted(self._subjects.get(subject, {}).items()) if not each.is_deleted]

    def version(self, subject: str, number: int | None, *, with_deleted: bool = False) -> SchemaVersion:
        """One version, the latest for None. Raises Refused."""
        found = self.versions(subject, with_deleted=with_deleted)
        if number is None:
            return found[-1]
        for each in found:
            if each.version == number:
                return each
        raise Refused(RegistryCode.VERSION_NOT_FOUND, f"Version {number} not found.")

    def text(self, context: str, schema_id: int) -> SchemaText:
        """The schema of an id. Raises Refused."""
        found = self._contexts.get(context)
        if found is None or schema_id not in found.texts:
            raise Refused(RegistryCode.SCHEMA_NOT_FOUND, f"Schema {schema_id} not found")
        return found.texts[schema_id]

    def last_id(self, context: str) -> int:
        found = self._contexts.get(context)
        return 0 if found is None else found.last_id

    def users(self, context: str, schema_id: int, *, with_deleted: bool = False) -> list[SchemaVersion]:
        """The versions that have an id, in order. Raises Refused."""
        self.text(context, schema_id)
        found = [
            self._subjects[subject][number] for subject, number in sorted(self._contexts[context].users[schema_id])
        ]
        return [each for each in found if with_deleted or not each.is_deleted]

    def subjects_of(self, context: str, schema_id: int) -> Iterator[str]:
        """The subjects with this id, in no order, deleted ones among them."""
        found = self._contexts.get(context)
        yield from (subject for subject, _ in (() if found is None else found.users.get(schema_id, ())))

    def has(self, subject: str, schema_id: int) -> bool:
        """True if a version of the subject has this id, and is not deleted."""
        return self._live[subject, schema_id] > 0

    def has_any(self, context: str, prefix: str, schema_id: int) -> bool:
        """The same of any subject of a context that begins so."""
        subjects = self.subjects_of(context, schema_id)
        return any(each.startswith(prefix) and self.has(each, schema_id) for each in subjects)

    def find(self, subject: str, text: SchemaText, *, with_deleted: bool = False) -> SchemaVersion | None:
        """The latest version of a subject with this schema."""
        matching = [each for each in self._subjects.get(subject, {}).values() if each.text == text]
        live = [each for each in matching if with_deleted or not each.is_deleted]
        return max(live, key=lambda each: each.version, default=None)

    def referenced_by(self, version: SchemaVersion) -> list[SchemaVersion]:
        """The versions whose schemas refer to this one, in order."""
        found = self._referenced.get((version.subject, version.version), ())
        every = [self._subjects[subject][number] for subject, number in sorted(found)]
        return [each for each in every if not each.is_deleted]

    def every(self, *, with_deleted: bool = False) -> Iterator[SchemaVersion]:
        """All versions, in order of their subjects."""
        for _, versions in sorted(self._subjects.items()):
            yield from (each for _, each in sorted(versions.items()) if with_deleted or not each.is_deleted)

    def own_level(self, scope: str | None) -> Compatibility | None:
        """The level that is set for a subject, a context or all; None where none is."""
        return self._levels.get(scope)

    def level(self, subject: str | None) -> Compatibility:
        """The level that holds: the subject's, its context's, or that of all."""
        return self._first(self._levels, subject) or DEFAULT_LEVEL

    def own_mode(self, scope: str | None) -> Mode | None:
        return self._modes.get(scope)

    def mode(self, subject: str | None) -> Mode:
        """The mode that holds, as `level`; READONLY_OVERRIDE of all is above the others."""
        if self._modes.get(None) is Mode.READONLY_OVERRIDE:
            return Mode.READONLY_OVERRIDE
        return self._first(self._modes, subject) or Mode.READWRITE

    # Decisions.

    def check_writable(self, subject: str) -> None:
        """Raises Refused where the mode forbids changes."""
        mode = self.mode(subject)
        if mode in (Mode.READONLY, Mode.READONLY_OVERRIDE):
            raise Refused(RegistryCode.NOT_PERMITTED, f"Subject {subject} is in read-only mode")

    def register(
        self, subject: str, text: SchemaText, schema_id: int | None = None, number: int | None = None
    ) -> tuple[list[RawRecord], SchemaVersion]:
        """A new version, unless there is one with this schema. In mode IMPORT the client says id and version."""
        self.check_writable(subject)
        is_import = self.mode(subject) is Mode.IMPORT
        if schema_id is not None and not is_import:
            raise Refused(RegistryCode.NOT_PERMITTED, f"Subject {subject} is not in import mode")
        found = self.find(subject, text)
        if found is not None and (not is_import or (found.id, found.version) == (schema_id, number or found.version)):
            return [], found
        if is_import and schema_id is None:
            raise Refused(RegistryCode.NOT_PERMITTED, f"Subject {subject} is in import mode: the schema needs its id")
        context = self._contexts.get(names.split(subject)[0]) or _Context()
        if schema_id is not None and context.texts.get(schema_id, text) != text:
            raise Refused(RegistryCode.NOT_PERMITTED, f"Overwrite new schema with id {schema_id} is not permitted.")
        if schema_id is None:
            schema_id = context.by_text.get(text) or context.last_id + 1
        if not 0 < schema_id <= ID_MAX:
            raise Refused(RegistryCode.NOT_PERMITTED, f"An id is a number from 1 to {ID_MAX}.")
        every = self._subjects.get(subject, {})
        made = SchemaVersion(subject, number or max(every, default=0) + 1, schema_id, text)
        return [schema_record(made)], made

    def delete_subject(self, subject: str, *, is_permanent: bool) -> tuple[list[RawRecord], list[int]]:
        """Delete all versions: softly, or for good what is softly deleted. Returns the versions."""
        self.check_writable(subject)
        every = self.versions(subject, with_deleted=True)
        live = [each for each in every if not each.is_deleted]
        if is_permanent:
            if live:
                raise Refused(
                    RegistryCode.SUBJECT_NOT_SOFT_DELETED,
                    f"Subject '{subject}' was not deleted first before being permanently deleted",
                )
            self._check_unreferenced(every)
            return [schema_tombstone(subject, each.version) for each in every], [each.version for each in every]
        if not live:
            raise Refused(
                RegistryCode.SUBJECT_SOFT_DELETED,
                f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently",
            )
        self._check_unreferenced(live)
        return [delete_subject_record(subject, live[-1].version), *self._forget_settings(subject)], [
            each.version for each in live
        ]

    def delete_version(
        self, subject: str, number: int | None, *, is_permanent: bool
    ) -> tuple[list[RawRecord], SchemaVersion]:
        """Delete one version, as `delete_subject` does."""
        self.check_writable(subject)
        found = self.version(subject, number, with_deleted=is_permanent or number is not None)
        shown = f"Subject '{subject}' Version {found.version}"
        if is_permanent:
            if not found.is_deleted:
                raise Refused(
                    RegistryCode.VERSION_NOT_SOFT_DELETED,
                    f"{shown} was not deleted first before being permanently deleted",
                )
            self._check_unreferenced([found])
            return [schema_tombstone(subject, found.version)], found
        if found.is_deleted:
            raise Refused(
                RegistryCode.VERSION_SOFT_DELETED,
                f"{shown} was soft deleted. Set permanent=true to delete permanently",
            )
        self._check_unreferenced([found])
        is_last = len(self.live_versions(subject)) == 1
        return [schema_record(_deleted(found)), *(self._forget_settings(subject) if is_last else ())], found

    def set_level(self, scope: str | None, level: Compatibility | None) -> list[RawRecord]:
        """Set it, or remove it for None. Raises Refused where there is none to remove."""
        if level is None and scope is not None and scope not in self._levels:
            raise no_level(scope)
        return [config_record(scope, None if level is None else level.value)]

    def set_mode(self, scope: str | None, mode: Mode | None, *, is_forced: bool = False) -> list[RawRecord]:
        """The same of a mode. Ids of others may be brought where there are none yet, unless it is forced."""
        if mode is None and scope is not None and scope not in self._modes:
            raise no_mode(scope)
        if mode is Mode.IMPORT and not is_forced and self._has_schemas(scope):
            raise Refused(RegistryCode.NOT_PERMITTED, "Cannot import since found existing subjects")
        return [mode_record(scope, None if mode is None else mode.value)]

    def check_invariants(self) -> None:
        for subject, versions in self._subjects.items():
            assert versions, "a subject has versions"
            context = self._contexts[names.split(subject)[0]]
            for number, each in versions.items():
                assert (each.subject, each.version) == (subject, number)
                assert context.texts[each.id] == each.text
                assert (subject, number) in context.users[each.id]
                assert each.id <= context.last_id
        live = [each for versions in self._subjects.values() for each in versions.values() if not each.is_deleted]
        assert self._live == Counter((each.subject, each.id) for each in live)
        for context in self._contexts.values():
            assert set(context.texts) == set(context.users)
            for schema_id, users in context.users.items():
                assert all(self._subjects[subject][number].id == schema_id for subject, number in users)

    # Steps of the above.

    def _add(self, version: SchemaVersion) -> None:
        subject, name = version.subject, names.split(version.subject)[0]
        context = self._contexts.setdefault(name, _Context())
        self._subjects.setdefault(subject, {})[version.version] = version
        if not version.is_deleted:
            self._live[subject, version.id] += 1
        context.last_id = max(context.last_id, version.id)
        context.texts[version.id] = version.text
        # The oldest id stays the schema's: a topic that was taken over may have several.
        context.by_text.setdefault(version.text, version.id)
        context.users.setdefault(version.id, set()).add((subject, version.version))
        for key in self._references_of(version):
            self._referenced.setdefault(key, set()).add((subject, version.version))

    def _remove(self, subject: str, number: int) -> None:
        versions = self._subjects.get(subject, {})
        version = versions.pop(number, None)
        if version is None:
            return
        if not version.is_deleted:
            self._live[subject, version.id] -= 1
            if not self._live[subject, version.id]:
                del self._live[subject, version.id]
        if not versions:
            del self._subjects[subject]
        context = self._contexts[names.split(subject)[0]]
        users = context.users[version.id]
        users.discard((subject, number))
        if not users:
            del context.users[version.id]
            text = context.texts.pop(version.id)
            if context.by_text.get(text) == version.id:
                del context.by_text[text]
        for key in self._references_of(version):
            users = self._referenced.get(key, set())
            users.discard((subject, number))
            if not users:
                self._referenced.pop(key, None)

    def _references_of(self, version: SchemaVersion) -> Iterator[tuple[str, int]]:
        context = names.split(version.subject)[0]
        for reference in version.text.references:
            yield names.qualified(reference.subject, context), reference.version

    def _check_unreferenced(self, versions: Iterable[SchemaVersion]) -> None:
        for each in versions:
            if self.referenced_by(each):
                raise Refused(
                    RegistryCode.REFERENCE_EXISTS,
                    "One or more references exist to the schema "
                    f"{{magic=1,keytype=SCHEMA,subject={each.subject},version={each.version}}}.",
                )

    def _forget_settings(self, subject: str) -> list[RawRecord]:
        """A subject that comes again begins with the settings of all."""
        records = []
        if subject in self._levels:
            records.append(config_record(subject, None))
        if subject in self._modes:
            records.append(mode_record(subject, None))
        return records

    def _has_schemas(self, scope: str | None) -> bool:
        if scope is None:
            return bool(self._subjects)
        context, name = names.split(scope)
        return scope in self._subjects if name else context in self._contexts

    def _first(self, settings: dict[str | None, _Setting], subject: str | None) -> _Setting | None:
        if subject is None:
            return settings.get(None)
        return settings.get(subject) or settings.get(names.scope_of(names.split(subject)[0])) or settings.get(None)


def no_level(subject: str) -> Refused:
    return Refused(
        RegistryCode.NO_SUBJECT_LEVEL,
        f"Subject '{subject}' does not have subject-level compatibility configured",
    )


def no_mode(subject: str) -> Refused:
    return Refused(RegistryCode.NO_SUBJECT_MODE, f"Subject '{subject}' does not have subject-level mode configured")


def _set(settings: dict[str | None, _Setting], scope: str | None, value: _Setting | None) -> None:
    if value is None:
        settings.pop(scope, None)
    else:
        settings[scope] = value


def _deleted(version: SchemaVersion) -> SchemaVersion:
    return SchemaVersion(version.subject, version.version, version.id, version.text, is_deleted=True)
