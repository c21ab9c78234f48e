"""Stand-ins for classes of PySpark 4.2 that bound the batches of a stream, for use with PySpark 4.1.

PySpark 4.1 asks a stream for its end without a start or a limit. So each batch takes all available records, and options
that bound a batch are refused.
"""

from dataclasses import dataclass


class ReadLimit:
    """The limit of one batch."""


class ReadAllAvailable(ReadLimit):
    """All there is."""


@dataclass(frozen=True)
class ReadMaxRows(ReadLimit):
    """A greatest number of rows."""

    max_rows: int


@dataclass(frozen=True)
class ReadMinRows(ReadLimit):
    """A least number of rows."""

    min_rows: int


class SupportsTriggerAvailableNow:
    """Marks a reader that can tell where a query with trigger AvailableNow stops."""
