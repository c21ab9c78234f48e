"""The overview has the rules of the alerts that are shipped."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hutong.console.overview.rules import RULES, UNKNOWABLE, Rule, duration, number, percent
from hutong.server.monitoring.metrics import METRICS

ROOT = Path(__file__).parents[4]
UNITS_S = {"s": 1, "m": 60, "h": 3_600}
COMPARED = re.compile(r"(==|!=|<|>)\s*([\d.]+(?:\s*\*\s*[\d.]+)?)\s*$")
WINDOW = re.compile(r"min_over_time\(\w+\[(\w+)\]\)")
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load((ROOT / "docs/grafana/alerts.yml").read_text())["groups"]
    for rule in group["rules"]
}
BY_ALERT = {rule.alert: rule for rule in RULES}


def seconds(length: str) -> int:
    return int(length[:-1]) * UNITS_S[length[-1]]


def test_every_alert_has_a_rule_or_a_reason_why_not() -> None:
    assert len(BY_ALERT) == len(RULES)
    assert BY_ALERT.keys() | UNKNOWABLE.keys() == ALERTS.keys()
    assert not BY_ALERT.keys() & UNKNOWABLE.keys()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.alert)
def test_a_rule_has_threshold_duration_and_severity_of_its_alert(rule: Rule) -> None:
    alert = ALERTS[rule.alert]
    compared = COMPARED.search(alert["expr"])
    assert compared, alert["expr"]
    assert rule.compare == compared[1]
    assert rule.threshold == math.prod(float(factor) for factor in compared[2].split("*"))
    window = WINDOW.search(alert["expr"])
    assert rule.for_s == seconds(window[1] if window else alert.get("for", "0s"))
    assert rule.severity == alert["labels"]["severity"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.alert)
def test_a_sentence_names_labels_that_the_metric_has(rule: Rule) -> None:
    wanted = set(re.findall(r"\{(\w+)\}", rule.sentence + (rule.see or ""))) - {"value"}
    metrics = set(re.findall(r"(?:hutong|kafka|process)_\w+", ALERTS[rule.alert]["expr"]))
    labels = {
        label
        for metric in METRICS
        if any(name.startswith(metric.family.name) for name in metrics)
        for label in metric.family.labels
    }
    assert wanted <= labels


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.alert)
def test_a_remedy_names_what_the_page_on_operations_names(rule: Rule) -> None:
    operations = (ROOT / "docs/operations.md").read_text()
    (row,) = (line for line in operations.splitlines() if line.startswith("| `") and f"`{rule.alert}`" in line)
    for code in re.findall(r"`([^`]+)`", rule.remedy):
        assert code in row


def test_values_are_said_in_their_largest_unit() -> None:
    assert [duration(value) for value in (0.12, 3, 400, 8_000, 800_000)] == [
        "120 ms",
        "3 seconds",
        "7 minutes",
        "2 hours",
        "9 days",
    ]
    assert [number(value) for value in (0.34, 2, 12.7, 4_321)] == ["0.3", "2", "13", "4,321"]
    assert percent(0.083) == "8 %"
