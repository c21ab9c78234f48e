"""A real ZooKeeper for tests: one server from PySpark's jars, started once for all that use it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper
from hutong.foundation.errors import UsageError


def make_zookeeper(folder: Path) -> DevelopmentZooKeeper:
    """One that is not started yet. Skips the test where the jars or a Java are missing, or kazoo."""
    pytest.importorskip("kazoo")
    try:
        return DevelopmentZooKeeper(folder, os.environ)
    except UsageError as error:
        pytest.skip(str(error))


def running_zookeeper(folder: Path) -> Iterator[DevelopmentZooKeeper]:
    """For fixtures: one that runs until they end."""
    server = make_zookeeper(folder)
    server.start()
    yield server
    server.stop()
