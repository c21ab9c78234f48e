"""Nodes of tests: made when the first test needs one, closed after the last test that shares it.

Strategy: nodes are kept by the tests that share them and by their settings. Each is closed by a finalizer of the pytest
node that its tests have in common, so also when a test fails half way or the run is interrupted. A shared node is
mended before the next test gets it: faults healed, started again where a test has stopped, killed or broken it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from hutong.foundation.errors import HutongError
from hutong.testing.embedded import EmbeddedNode
from hutong.testing.requirements import NodeRequirements, TopicRequirement

_OWNERS: Final[dict[str, tuple[type[pytest.Item | pytest.Collector], ...]]] = {
    "function": (pytest.Item,),
    "class": (pytest.Class, pytest.Module),  # a test outside of a class shares with its module
    "module": (pytest.Module,),
    "session": (pytest.Session,),
}
_Key = tuple[str, NodeRequirements]


class SharedNodes:
    """The nodes of one run of pytest that are open now. `folder` makes a new temporary one."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder
        self._open: dict[_Key, EmbeddedNode] = {}

    @contextmanager
    def node_for(
        self, item: pytest.Item | pytest.Session, required: NodeRequirements, topics: list[TopicRequirement]
    ) -> Iterator[EmbeddedNode]:
        """The node for one test, with its topics. A wrong requirement fails the test."""
        owner = _owner_of(item, required.scope)
        key = (owner.nodeid, required)
        try:
            node = self._open.get(key) or self._opened(key, owner)
            for topic in topics:
                _declare(node, topic)
        except HutongError as error:
            pytest.fail(f"hutong_node: {error}", pytrace=False)
        yield node
        if required.scope != "function":
            _mend(node)

    def _opened(self, key: _Key, owner: pytest.Item | pytest.Collector) -> EmbeddedNode:
        required = key[1]
        data_dir = self._folder() if required.data == "folder" else None
        node = EmbeddedNode(data_dir=data_dir, settings=dict(required.settings), users=dict(required.users))

        def close() -> None:
            self._open.pop(key, None)
            node.close()

        owner.addfinalizer(close)
        self._open[key] = node.start()
        return node


def _owner_of(item: pytest.Item | pytest.Session, scope: str) -> pytest.Item | pytest.Collector:
    for kind in _OWNERS[scope]:
        owner = item.getparent(kind)
        if owner is not None:
            return owner
    return item.session


def _declare(node: EmbeddedNode, required: TopicRequirement) -> None:
    topic = required.topic
    partitions = node.topics().get(topic.name)
    if partitions is not None and required.keep:
        if partitions != topic.partitions:
            pytest.fail(
                f"hutong_topic: {topic.name} is to be kept as it is and has {partitions} partitions, "
                f"not {topic.partitions}",
                pytrace=False,
            )
        return
    if partitions is not None:
        node.delete_topic(topic.name)
    node.create_topic(topic.name, partitions=topic.partitions, config=topic.config)


def _mend(node: EmbeddedNode) -> None:
    was_broken = node.faults.has_broken_disk
    node.faults.heal()
    if was_broken:
        node.restart()
    else:
        node.start()  # where it was stopped or killed
