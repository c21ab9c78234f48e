"""Both walks over records, and what each makes of the same bytes."""

import contextlib
import importlib
from types import ModuleType

from hutong.foundation.errors import ProtocolError
from hutong.wire.kafka.batch import record_walk


def walks() -> list[ModuleType]:
    """The reference, and the compiled walk where it is built."""
    found: list[ModuleType] = [record_walk]
    with contextlib.suppress(ImportError):
        found.append(importlib.import_module("hutong.wire.kafka.batch._record_walk"))
    return found


def outcome_of(walk: ModuleType, name: str, arguments: tuple[object, ...]) -> object:
    """Result or the sentence of the error, of one function of a walk."""
    try:
        found = getattr(walk, name)(*arguments)
    except ProtocolError as error:
        return str(error)
    return found if found is None or isinstance(found, int) else tuple(found)


def check_agreement(data: bytes, start: int, count: int, base_ms: int, numbers: tuple[int, int, int]) -> None:
    """Raises AssertionError where the walks differ in a result or in the sentence of an error."""
    for name, arguments in (
        ("examine_records", (data, start, count, base_ms, *numbers[:2])),
        ("greatest_timestamp", (data, start, count, base_ms)),
        ("first_from", (data, start, count, base_ms, *numbers)),
        ("greatest_in", (data, start, count, base_ms, *numbers[1:])),
    ):
        reference, *others = (outcome_of(walk, name, arguments) for walk in walks())
        assert all(other == reference for other in others), f"{name}: {reference} and {others}"
