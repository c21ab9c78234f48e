from collections.abc import Iterator

import pytest
from tests.unit.console.scene import ConsoleClient, node_with_console

from hutong.testing import EmbeddedNode


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with node_with_console() as node:
        yield node


@pytest.fixture
def client(node: EmbeddedNode) -> ConsoleClient:
    return ConsoleClient(node).begin()
