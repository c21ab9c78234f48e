"""What each client is asked to do at a secured node, and how it tells what became of it.

A driver of a client is a function from a job to the error that the client's user sees, with its kind: no text means
that all was as it must be. Knows nothing of the clients.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from tests.compat.secured.access import Access

# A topic is made, written, read by a group, its offsets seen by an administrator, and deleted.
WORK: Final = "work"
# A first request; its error.
KNOCK: Final = "knock"
# One record is written into the topic `name`; its error.
WRITE: Final = "write"
# The topic `name` is read by a group of the same name with `-group` at its end; its error.
READ: Final = "read"
# The topic `name` is made; its error.
CREATE: Final = "create"
# One producer and one consumer of the topic `name` are busy for some seconds and see no error.
STAY: Final = "stay"

RECORDS: Final = 20
SECONDS_MAX: Final = 30.0  # for what must happen
PATIENCE_S: Final = 10.0  # for an error to be told


@dataclass(frozen=True, slots=True)
class Job:
    """One errand of a client."""

    access: Access
    action: str
    name: str = ""
    seconds: float = 0.0

    def words(self) -> dict[str, str]:
        return {"action": self.action, "name": self.name, "seconds": str(self.seconds)}


Driver = Callable[[Job], str]


class _Keeper(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def overheard(name: str) -> Iterator[list[str]]:
    """The log of a client: some give their reason for a failed connection there alone."""
    keeper = _Keeper()
    logger = logging.getLogger(name)
    logger.addHandler(keeper)
    try:
        yield keeper.lines
    finally:
        logger.removeHandler(keeper)


def told(error: BaseException, overheard: Sequence[str] = ()) -> str:
    """An error as a user of the client reads it, with those that it hides, and what the client had logged."""
    parts: list[str] = []
    found: BaseException | None = error
    while found is not None and len(parts) < 4:
        parts.append(f"{type(found).__name__}: {found}")
        found = found.__cause__ or found.__context__
    return " < ".join([*parts, *overheard]).replace("\n", " ")


def check(seen: object, wanted: object, what: str) -> None:
    assert seen == wanted, f"{what}: {seen!r}, not {wanted!r}"
