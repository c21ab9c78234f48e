"""The dashboard and the alerts that are shipped ask for nothing that a node does not show."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutong.server.monitoring.exposition import MetricKind
from hutong.server.monitoring.metrics import METRICS

ROOT = Path(__file__).parents[4]
RATE = re.compile(r"(?:topk\(15, )?sum(?: by \([^)]*\))? ?\(rate\([^/]*")
GRAFANA = ROOT / "docs" / "grafana"
OF_THE_SCRAPER = {"instance", "job"}
OF_PARTITIONS = (
    "current_offset",
    "oldest_offset",
    "replicas",
    "in_sync_replica",
    "under_replicated_partition",
    "leader",
    "leader_is_preferred",
)
OF_GROUPS = ("members", "current_offset", "lag", "lag_seconds")
OF_BROKERS = (
    "controller_kafkacontroller_activecontrollercount",
    "controller_kafkacontroller_offlinepartitionscount",
    "controller_controllerstats_leaderelections_total",
    "controller_controllerstats_uncleanleaderelections_total",
    "log_log_size",
    "network_requestmetrics_requests_total",
    "network_requestmetrics_totaltimems",
    "network_socketserver_networkprocessoravgidle_percent",
    "server_brokertopicmetrics_bytesin_total",
    "server_brokertopicmetrics_bytesout_total",
    "server_brokertopicmetrics_messagesin_total",
    "server_brokertopicmetrics_totalfetchrequests_total",
    "server_brokertopicmetrics_totalproducerequests_total",
    "server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    "server_replicamanager_isrexpands_total",
    "server_replicamanager_isrshrinks_total",
    "server_replicamanager_leadercount",
    "server_replicamanager_partitioncount",
    "server_replicamanager_underminisrpartitioncount",
    "server_replicamanager_underreplicatedpartitions",
)
METRIC = re.compile(r"\b((?:hutong|kafka|process)_[a-z_]+)(?:\{([^}]*)\})?")
NAME_IN_ALERTS = re.compile(r"alert(?:name)?\W+(Hutong\w+)")


def names() -> dict[str, set[str]]:
    """Every name that a query may ask for, with the labels it may tell apart."""
    known: dict[str, set[str]] = {}
    for metric in METRICS:
        family = metric.family
        labels = {*family.labels, *OF_THE_SCRAPER}
        if family.kind is MetricKind.HISTOGRAM:
            known |= {f"{family.name}_bucket": labels | {"le"}, f"{family.name}_sum": labels}
            known[f"{family.name}_count"] = labels
        else:
            known[family.name] = labels
    return known


def queries_of(value: object) -> Iterator[str]:
    """Every query anywhere in a dashboard."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("expr", "query") and isinstance(inner, str):
                yield inner
            else:
                yield from queries_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from queries_of(inner)


def asked(queries: Iterator[str]) -> list[tuple[str, str]]:
    return [(match[1], match[2] or "") for query in queries for match in METRIC.finditer(query)]


DASHBOARD = asked(queries_of(json.loads((GRAFANA / "hutong.json").read_text())))
ALERTS = asked(iter([(GRAFANA / "alerts.yml").read_text()]))


@pytest.mark.parametrize(("name", "matchers"), sorted({*DASHBOARD, *ALERTS}))
def test_a_query_asks_for_what_a_node_shows(name: str, matchers: str) -> None:
    known = names()
    assert name in known
    assert set(re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", matchers)) <= known[name]


def test_what_dashboards_for_other_exporters_read_is_there() -> None:
    """Those of kafka_exporter (Grafana's 7589 and its like) and of Kafka's JMX exporter (721, Strimzi's)."""
    known = names()
    for name in (
        "kafka_brokers",
        "kafka_topic_partitions",
        *(f"kafka_topic_partition_{word}" for word in OF_PARTITIONS),
        *(f"kafka_consumergroup_{word}" for word in OF_GROUPS),
    ):
        assert name in known
    for word in OF_BROKERS:
        assert f"kafka_{word}" in known
    assert known["kafka_consumergroup_lag"] == {"consumergroup", "topic", "partition", *OF_THE_SCRAPER}
    assert known["kafka_topic_partition_current_offset"] == {"topic", "partition", *OF_THE_SCRAPER}
    assert known["kafka_network_requestmetrics_totaltimems"] == {"request", "quantile", *OF_THE_SCRAPER}
    assert "topic" in known["kafka_server_brokertopicmetrics_bytesin_total"]


def test_the_dashboard_has_panels_of_their_own_number_and_place() -> None:
    panels = json.loads((GRAFANA / "hutong.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 20
    places = [
        (panel["gridPos"]["x"] + column, panel["gridPos"]["y"] + line)
        for panel in panels
        for column in range(panel["gridPos"]["w"])
        for line in range(panel["gridPos"]["h"])
    ]
    assert len(set(places)) == len(places), "panels overlap"
    assert max(column for column, _ in places) < 24


def test_what_is_a_rate_has_a_unit_in_each_second() -> None:
    for panel in json.loads((GRAFANA / "hutong.json").read_text())["panels"]:
        queries = [target["expr"] for target in panel.get("targets", ())]
        if queries and all(RATE.fullmatch(query) for query in queries):
            assert panel["fieldConfig"]["defaults"]["unit"] in {"recps", "reqps", "cps", "Bps", "percentunit"}, panel[
                "title"
            ]


def test_every_alert_is_tested_and_explained() -> None:
    alerts = set(NAME_IN_ALERTS.findall((GRAFANA / "alerts.yml").read_text()))
    tested = set(NAME_IN_ALERTS.findall((ROOT / "tests/compat/prometheus/alerts.test.yml").read_text()))
    explained = set(re.findall(r"`(Hutong\w+)`", (ROOT / "docs/operations.md").read_text()))
    assert alerts == tested == explained
