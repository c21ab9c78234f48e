"""What PySpark has from 4.2 on to bound the batches of a stream, in the shape that the reader needs it before.

PySpark 4.1 asks a stream for its end without saying from where or how much, so there each batch takes all there is, and
options that bound a batch are refused.
"""

from dataclasses import dataclass


class ReadLimit:
    """How much a batch may take."""


class ReadAllAvailable(ReadLimit):
    """All there is."""


@dataclass(frozen=True)
class ReadMaxRows(ReadLimit):
    """At most so many rows."""

    max_rows: int


@dataclass(frozen=True)
class ReadMinRows(ReadLimit):
    """At least so many rows."""

    min_rows: int


class SupportsTriggerAvailableNow:
    """Marks a reader that can tell where a query with trigger AvailableNow stops."""
