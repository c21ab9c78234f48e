"""Requirements of a test on its node, by ini options and markers: checked when tests are collected.

    ini      hutong_scope = module        hutong_data = folder        hutong_settings = log.retention_ms=1000
    markers  hutong_node(scope=, data=, settings=)                    hutong_topic(name, partitions=, config=, keep=)

The marker nearest to the test wins, then the ini file. Raises pytest.UsageError with one sentence for what is wrong: a
misspelt marker that is ignored makes a test that passes for the wrong reason.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from hutong.testing.values import Topic

SCOPES: Final = ("function", "class", "module", "session")
PLACES: Final = ("memory", "folder")
MARKERS: Final = {
    "hutong_topic": "hutong_topic(name, partitions=1, config={}, keep=False): a topic that the test's node has, empty "
    "unless a shared node is to keep what is in it.",
    "hutong_node": "hutong_node(scope=, data=, settings={}, users={}): with whom the test shares its node (function, "
    "class, module, session), where its data are (memory, folder), its settings, and the passwords of its users.",
}
OPTIONS: Final = {
    "hutong_scope": "tests that share a node: function (each its own), class, module or session",
    "hutong_data": "where a node's data are: memory, or a temporary folder",
    "hutong_settings": "settings of the nodes, one name=value on a line, as `hutong config` lists them",
}
_PREFIX: Final = "hutong_"


@dataclass(frozen=True, slots=True)
class NodeRequirements:
    """The node a test is given: equal requirements of tests that share are met by one node."""

    scope: str = "function"
    data: str = "memory"
    settings: tuple[tuple[str, str], ...] = ()
    users: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class TopicRequirement:
    """A topic that is to be there; what an earlier test left in it goes, unless it is to be kept."""

    topic: Topic
    keep: bool = False


def add_options(parser: pytest.Parser) -> None:
    parser.addini("hutong_scope", OPTIONS["hutong_scope"], default="function")
    parser.addini("hutong_data", OPTIONS["hutong_data"], default="memory")
    parser.addini("hutong_settings", OPTIONS["hutong_settings"], type="linelist", default=[])


def check_options(config: pytest.Config) -> None:
    """Raises UsageError for an ini option that looks like ours and is not, or has a value that is none."""
    names = getattr(config, "_inicfg", None)  # the public name is deprecated since pytest 9, without another
    for name in config.inicfg if names is None else names:
        if name.startswith(_PREFIX) and name not in OPTIONS:
            raise pytest.UsageError(f"unknown option {name} in the ini file{_nearest(name, OPTIONS)}")
    default_requirements(config)


def default_requirements(config: pytest.Config) -> NodeRequirements:
    """The requirements in the ini file. Raises UsageError."""
    lines = config.getini("hutong_settings")
    broken = next((line for line in lines if "=" not in line), None)
    if broken is not None:
        raise pytest.UsageError(f"hutong_settings: {broken!r} is not of the form name=value")
    pairs = tuple(sorted((name.strip(), value.strip()) for name, _, value in (line.partition("=") for line in lines)))
    return NodeRequirements(
        _choice("hutong_scope", config.getini("hutong_scope"), SCOPES),
        _choice("hutong_data", config.getini("hutong_data"), PLACES),
        pairs,
    )


def node_requirements(item: pytest.Item, default: NodeRequirements) -> NodeRequirements:
    """The requirements of a test's markers and the ini file; settings of all of them add up. Raises UsageError."""
    scope, data, settings, users = default.scope, default.data, dict(default.settings), dict(default.users)
    for mark in reversed(list(item.iter_markers("hutong_node"))):  # the nearest comes last, and wins
        asked = _arguments(item, mark, (), ("scope", "data", "settings", "users"))
        where = f"{item.nodeid}: hutong_node"
        scope = _choice(f"{where}(scope=)", asked.get("scope", scope), SCOPES)
        data = _choice(f"{where}(data=)", asked.get("data", data), PLACES)
        settings |= _texts(f"{where}(settings=)", asked.get("settings", {}), '{"log.retention_ms": "1000"}')
        users |= _texts(f"{where}(users=)", asked.get("users", {}), '{"alice": "her password"}')
    return NodeRequirements(scope, data, tuple(sorted(settings.items())), tuple(sorted(users.items())))


def _texts(where: str, given: object, example: str) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise pytest.UsageError(f"{where} is a dict such as {example}, not {given!r}")
    return {str(name): str(value) for name, value in given.items()}


def topic_requirements(item: pytest.Item) -> list[TopicRequirement]:
    """The topics that the test's markers name; the nearest wins where one is named twice. Raises UsageError."""
    by_name: dict[str, TopicRequirement] = {}
    for mark in item.iter_markers("hutong_topic"):
        asked = _arguments(item, mark, ("name",), ("partitions", "config", "keep"))
        if "name" not in asked:
            raise pytest.UsageError(f'{item.nodeid}: hutong_topic needs the name of a topic: hutong_topic("orders")')
        keep = asked.pop("keep", False)
        try:
            required = TopicRequirement(Topic(**asked), bool(keep))
        except ValueError as error:
            raise pytest.UsageError(f"{item.nodeid}: hutong_topic: {error}") from None
        by_name.setdefault(required.topic.name, required)
    return list(by_name.values())


def problem_of(item: pytest.Item, default: NodeRequirements) -> str | None:
    """A sentence on a misspelt or misused marker of ours; None if all are right."""
    ours = {mark.name for mark in item.iter_markers() if mark.name.startswith("hutong")}
    unknown = next(iter(ours - MARKERS.keys()), None)
    if unknown is not None:
        return f"{item.nodeid}: unknown marker {unknown}{_nearest(unknown, MARKERS)}"
    try:
        if ours:
            node_requirements(item, default)
            topic_requirements(item)
    except pytest.UsageError as error:
        return str(error)
    # On a class or a module it may be meant for others; on the test itself it is meant for this one.
    idle = next((mark.name for mark in item.own_markers if mark.name in MARKERS), None)
    if idle is not None and "hutong_node" not in getattr(item, "fixturenames", ()):
        return f"{item.nodeid}: {idle} does nothing without a node; ask for hutong_node, kafka_bootstrap or hutong_bus"
    return None


def _arguments(
    item: pytest.Item, mark: pytest.Mark, positional: tuple[str, ...], named: tuple[str, ...]
) -> dict[str, Any]:
    if len(mark.args) > len(positional):
        taken = f"takes {', '.join(positional) or 'nothing'} and then {', '.join(f'{name}=' for name in named)}"
        raise pytest.UsageError(f"{item.nodeid}: {mark.name} {taken}; {mark.args[len(positional)]!r} is too much")
    for name in mark.kwargs:
        if name not in (*positional, *named):
            raise pytest.UsageError(
                f"{item.nodeid}: {mark.name} takes no {name}{_nearest(name, (*positional, *named))}"
            )
    return {**dict(zip(positional, mark.args, strict=False)), **mark.kwargs}


def _choice(where: str, value: Any, known: tuple[str, ...]) -> str:
    if value not in known:
        raise pytest.UsageError(f"{where} is {value!r}; choose {', '.join(known[:-1])} or {known[-1]}")
    return str(value)


def _nearest(word: str, known: Iterable[str]) -> str:
    known = list(known)
    found = difflib.get_close_matches(word, known, 1)
    return f"; did you mean {found[0]}?" if found else f"; there are {', '.join(known)}"
