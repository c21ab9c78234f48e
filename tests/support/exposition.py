"""A strict reader of Prometheus' text format 0.0.4, for tests: anything that the format does not allow fails.

The rules are those of the page "Exposition formats" of Prometheus' documentation, and of `promtool check metrics` for
names: a counter ends with `_total`, every family has its HELP.
"""

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

Labels = tuple[tuple[str, str], ...]
_NAME: Final = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL: Final = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
_SAMPLE: Final = re.compile(rf"({_NAME})(?:\{{((?:{_LABEL})(?:,{_LABEL})*)?\}})? (\S+)")
_ESCAPES: Final = {r"\\": "\\", r"\n": "\n", r"\"": '"'}


@dataclass
class ParsedFamily:
    """One family: `samples` maps (name, labels) to the value."""

    name: str
    meaning: str
    kind: str = ""
    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)

    def value(self, **labels: str) -> float:
        """Of the sample with these labels, or of the one that has them among others; without a histogram's suffix."""
        wanted = set(labels.items())
        found = {
            having: value
            for (name, having), value in self.samples.items()
            if name in (self.name, f"{self.name}_count") and wanted <= set(having)
        }
        exact = [value for having, value in found.items() if len(having) == len(wanted)]
        (only,) = exact or found.values()
        return only


def parse(page: str) -> dict[str, ParsedFamily]:
    """The families of a page by name. Raises AssertionError for anything that the format does not allow."""
    assert page.endswith("\n"), "the last line ends with a line feed"
    families: dict[str, ParsedFamily] = {}
    current: ParsedFamily | None = None
    for line in page[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, _, meaning = line.removeprefix("# HELP ").partition(" ")
            assert re.fullmatch(_NAME, name), name
            assert name not in families, f"{name} comes twice"
            current = families[name] = ParsedFamily(name, _unescaped(meaning))
        elif line.startswith("# TYPE "):
            name, _, kind = line.removeprefix("# TYPE ").partition(" ")
            assert current is not None
            assert name == current.name
            assert not current.samples
            assert kind in ("counter", "gauge", "histogram", "summary"), kind
            assert name.endswith("_total") == (kind == "counter"), name
            current.kind = kind
        else:
            assert current is not None, line
            _add_sample(current, line)
    for family in families.values():
        if family.kind == "histogram":
            _check_histogram(family)
    return families


def _add_sample(family: ParsedFamily, line: str) -> None:
    match = _SAMPLE.fullmatch(line)
    assert match, line
    suffixes = ("_bucket", "_sum", "_count") if family.kind == "histogram" else ("",)
    assert match[1] in {family.name + suffix for suffix in suffixes}, line
    labels = tuple((name, _unescaped(value)) for name, value in re.findall(_LABEL, match[2] or ""))
    assert len(dict(labels)) == len(labels), line
    assert (match[1], labels) not in family.samples, f"twice: {line}"
    family.samples[match[1], labels] = float(match[7])


def _check_histogram(family: ParsedFamily) -> None:
    buckets: dict[Labels, list[tuple[float, float]]] = {}
    for (name, labels), value in family.samples.items():
        if name.endswith("_bucket"):
            others = tuple(pair for pair in labels if pair[0] != "le")
            buckets.setdefault(others, []).append((float(dict(labels)["le"]), value))
    for others, bounds in buckets.items():
        assert bounds[-1][0] == float("inf"), others
        assert all(before[0] < after[0] and before[1] <= after[1] for before, after in pairwise(bounds)), others
        assert bounds[-1][1] == family.samples[f"{family.name}_count", others]
        assert (f"{family.name}_sum", others) in family.samples
    assert len(family.samples) == sum(len(bounds) + 2 for bounds in buckets.values())


def _unescaped(text: str) -> str:
    return re.sub(r'\\[\\n"]', lambda match: _ESCAPES[match[0]], text)
