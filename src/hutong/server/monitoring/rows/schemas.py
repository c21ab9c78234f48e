"""The schema registry: requests by route and outcome, and how many schemas there are.

Knows nothing of schemas.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hutong.server.monitoring.metric import COUNTER, GAUGE, Labelled, Metric, Read, metric
from hutong.server.monitoring.sources import Sources

if TYPE_CHECKING:
    from hutong.registry.figures import SchemaCounts  # only a node with a registry needs it


def _requests(sources: Sources) -> Labelled:
    if sources.schemas is not None:
        yield from sorted(sources.schemas.figures.requests_total.items())


def _texts(sources: Sources) -> Labelled:
    if sources.schemas is not None:
        yield ("known",), sources.schemas.figures.known_total
        yield ("parsed",), sources.schemas.figures.parsed_total


def _count(read: "Callable[[SchemaCounts], int]") -> Read:
    return lambda sources: [] if sources.schemas is None else [((), read(sources.schemas.counts))]


METRICS: Final[tuple[Metric, ...]] = (
    metric(
        "hutong_schema_registry_requests_total",
        COUNTER,
        "Requests to the schema registry by method and path, and ok or the error code.",
        _requests,
        "method",
        "path",
        "outcome",
    ),
    metric(
        "hutong_schema_registry_texts_total",
        COUNTER,
        "Schemas that requests brought: parsed, or known from an earlier request.",
        _texts,
        "result",
    ),
    metric(
        "hutong_schema_registry_subjects",
        GAUGE,
        "Subjects that are not deleted, as far as this node has read them.",
        _count(lambda counts: counts.subjects),
    ),
    metric(
        "hutong_schema_registry_versions",
        GAUGE,
        "Versions of subjects that are not deleted.",
        _count(lambda counts: counts.versions),
    ),
    metric(
        "hutong_schema_registry_schemas",
        GAUGE,
        "Schemas with an id, each counted once in a context however many versions have it.",
        _count(lambda counts: counts.schemas),
    ),
)
