"""A real ZooKeeper for tests: one server from PySpark's jars, started once for all that use it."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hutong.cluster.coordinator.development_zookeeper import DevelopmentZooKeeper
from hutong.foundation.errors import UsageError


def make_zookeeper(folder: Path, host: str = "127.0.0.1", prefix: Sequence[str] = ()) -> DevelopmentZooKeeper:
    """One that is not started yet, at an address of the namespace that the words `prefix` lead to.

    Skips the test where the jars or a Java are missing, or kazoo.
    """
    pytest.importorskip("kazoo")
    try:
        return DevelopmentZooKeeper(folder, os.environ, host=host, prefix=prefix)
    except UsageError as error:
        pytest.skip(str(error))


def running_zookeeper(folder: Path) -> Iterator[DevelopmentZooKeeper]:
    """For fixtures: one that runs until they end."""
    server = make_zookeeper(folder)
    server.start()
    yield server
    server.stop()
