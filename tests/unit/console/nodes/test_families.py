"""The console reads what a node shows."""

from hutong.console.nodes.families import KEPT
from hutong.server.monitoring.exposition import MetricKind
from hutong.server.monitoring.metrics import METRICS


def shown() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for metric in METRICS:
        family = metric.family
        if family.kind is MetricKind.HISTOGRAM:
            found[f"{family.name}_bucket"] = {*family.labels, "le"}
            found |= {f"{family.name}_{name}": set(family.labels) for name in ("sum", "count")}
        else:
            found[family.name] = set(family.labels)
    return found


def test_families_and_labels_are_those_of_a_node() -> None:
    known = shown()
    assert {name for name in KEPT if name not in known} == set()
    assert {name for name, kept in KEPT.items() if not set(kept.labels) <= known[name]} == set()
