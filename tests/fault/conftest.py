"""The cluster of real processes that most tests of its faults begin with."""

import pathlib
from collections.abc import Iterator

import pytest
from tests.support.cluster import Cluster
from tests.support.cluster_load import create_topics


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[Cluster]:
    """Three nodes with the topics of `ClusterLoad`."""
    with Cluster(tmp_path) as running:
        create_topics(running)
        yield running
