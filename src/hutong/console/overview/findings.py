"""The rules that hold, for what, and for how long: the state of "What is wrong now and what to do".

Strategy: each sample is looked at once. A thing for which a rule holds in two samples has had it all the time between.
What held already when somebody began to look counts as an alert: it may have stood for hours.

Knows no rule and no clock.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from hutong.console.nodes.history import History
from hutong.console.nodes.samples import Labels
from hutong.console.overview.measures import Measured
from hutong.console.overview.rules import COMPARES, Rule

THINGS_MAX: Final = 5
"""Of one rule that are shown; the others are counted."""
ORDER: Final = ("critical", "warning", "info")


@dataclass(frozen=True, slots=True)
class FoundProblem:
    """A rule that holds for something. `is_alert`: for long enough. `more`: other things that are not shown."""

    alert: str
    severity: str
    sentence: str
    remedy: str
    see: str | None
    since_ms: int | None  # None: since before somebody looked
    is_alert: bool
    more: int = 0


class FoundProblems:
    """The problems that the rules find. `found` are those of the newest sample, the worst first."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.found: list[FoundProblem] = []
        self._rules = rules
        self._since: dict[tuple[str, Labels], tuple[int, int] | None] = {}  # monotonic and wall time, if known

    def observe(self, history: History) -> None:
        """Look at the newest sample."""
        sample = history.newest
        if sample is None:
            return
        # A history that begins anew says nothing of the time before.
        before = self._since if len(history) > 1 else {}
        self._since = {}
        self.found = []
        for rule in self._rules:
            holding = sorted(held(rule, history), key=lambda one: -(one.value if one.shown is None else one.shown))
            for one in holding:
                key = (rule.alert, one.labels)
                begun = (sample.at_ms, sample.wall_ms) if len(history) > 1 else None
                self._since[key] = before.get(key, begun)
            more = max(len(holding) - THINGS_MAX, 0)
            for place, one in enumerate(holding[:THINGS_MAX]):
                since = self._since[rule.alert, one.labels]
                is_alert = since is None or sample.at_ms - since[0] >= rule.for_s * 1_000
                last = place == THINGS_MAX - 1
                self.found.append(_finding(rule, one, since, is_alert=is_alert, more=more if last else 0))
        self.found.sort(key=lambda finding: (not finding.is_alert, ORDER.index(finding.severity)))


def held(rule: Rule, history: History) -> Iterable[Measured]:
    """The things for which a rule holds now."""
    compare = COMPARES[rule.compare]
    return (one for one in rule.measure(history) if compare(one.value, rule.threshold))


def health(findings: Sequence[FoundProblem], reasons: Sequence[str]) -> tuple[str, str]:
    """A tone (good, warn, bad) and one sentence on the whole. `reasons` keep the node from being ready."""
    if reasons:
        return "bad", f"The node is not ready: {reasons[0]}."
    alerts = [finding for finding in findings if finding.is_alert and finding.severity != "info"]
    critical = sum(finding.severity == "critical" for finding in alerts)
    if critical:
        return "bad", f"{_things(critical)} wrong and {'needs' if critical == 1 else 'need'} you now."
    if alerts:
        return (
            "warn",
            f"It works, and {_things(len(alerts)).lower()} not as {'it' if len(alerts) == 1 else 'they'} should be.",
        )
    watched = len(findings)
    if watched:
        return "good", f"It works. {_things(watched)} worth watching and may pass."
    return "good", "All is well."


def _things(count: int) -> str:
    return "One thing is" if count == 1 else f"{count} things are"


def _finding(rule: Rule, one: Measured, since: tuple[int, int] | None, *, is_alert: bool, more: int) -> FoundProblem:
    labels = dict(one.labels)
    value = rule.shown(one.value if one.shown is None else one.shown)
    names = {name: text.replace("_", " ") if name in ("reason", "kind") else text for name, text in labels.items()}
    see = rule.see.format(**{name: quote(text, safe="") for name, text in labels.items()}) if rule.see else None
    sentence = rule.sentence.format(value=value, **names)
    since_ms = None if since is None else since[1]
    return FoundProblem(rule.alert, rule.severity, sentence, rule.remedy, see, since_ms, is_alert, more)
