from collections.abc import Iterator

import pytest
from tests.unit.rest.scene import RestClient, node_with_http

from hutong.testing import EmbeddedNode


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with node_with_http() as node:
        yield node


@pytest.fixture
def client(node: EmbeddedNode) -> RestClient:
    return RestClient(node.http or "").begin()
