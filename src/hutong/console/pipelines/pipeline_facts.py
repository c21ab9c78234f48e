"""The port to pipelines: what their folders tell.

The command line implements it, since pipelines are its business alone. Knows nothing of Spark.
"""

from collections.abc import Collection
from typing import Any, Protocol


class PipelineFacts(Protocol):
    """The pipelines of one folder. All methods read files, and block."""

    def rows(self) -> list[dict[str, Any]]:
        """A row for each query, with `name`, `state`, `query`, `batch`, `rows_per_second`, `batch_ms` and `lag`.

        `since` is a time as text, `attempt` counts restarts, `error` is that of the last run. Figures are None where
        nothing has been done yet.
        """
        ...

    def report(self, name: str) -> str | None:
        """The report of its newest run as an HTML page without scripts; None where there is none."""
        ...

    def batches(self, places: Collection[tuple[str, int, int]]) -> tuple[list[dict[str, Any]], bool]:
        """The batches that have read records, given as topic, partition and offset; True where some may be left out.

        A batch has `pipeline`, `query`, `batch_id`, `started_ms`, `duration_ms`, `row_count`, `to_topic`, `to_path`,
        and `read`: of each of the records `topic`, `partition`, `offset`, and `is_certain`.
        """
        ...
