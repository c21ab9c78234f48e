"""What holds for all tests: the plugin that we give to others, and which tests are left to longer runs.

`make test` is for whoever has just changed something and takes minutes: the tests of each room, and three Kafka clients
of Python against a node. The marker `long`, given by folder or by a marker of its own, stands for the rest: kills and
broken disks (tests/fault), Spark (tests/spark), clients in other languages and all else that others wrote
(tests/compat), commands and programs of the docs, which take a process each. `make test-all` and `.ci/run` run them as
well; so does naming their file.
"""

from pathlib import Path
from typing import Final

import hypothesis
import pytest
from tests.compat.report import IS_FULL

# Named here so that it is there without an installation.
pytest_plugins = ["hutong.testing.plugin", "tests.support.hanging"]

# By default an example that takes over 200 ms fails: a slow machine is not a finding.
hypothesis.settings.register_profile("any-machine", deadline=None)
hypothesis.settings.load_profile("any-machine")

TESTS: Final = Path(__file__).parent
LONG_PLACES: Final = tuple(
    TESTS / name
    for name in (
        "compat",
        "fault",
        "spark",
        "unit/cli",  # a process for each command
        "unit/house/test_pages.py",  # the programs of the docs, likewise
        "unit/testing/test_rpc_page.py",
    )
)
LONG_MARKERS: Final = ("fault", "spark")
QUICK_CLIENTS: Final = ("test_aiokafka.py", "test_confluent_kafka.py", "test_kafka_python.py")  # of tests/compat


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part", choices=("all", "quick", "long"), default="all", help="which tests: all, or by the marker `long`"
    )


def _is_long(item: pytest.Item) -> bool:
    if any(item.get_closest_marker(name) for name in LONG_MARKERS):
        return True
    if item.path.parent == TESTS / "compat" and item.path.name in QUICK_CLIENTS:
        return False
    return any(item.path.is_relative_to(long) for long in LONG_PLACES)


def _named_paths(config: pytest.Config) -> list[Path]:
    """Files and folders on the command line, but not the folder of all tests, which stands for no choice."""
    paths = [(config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args]
    return [path for path in paths if path not in (TESTS, TESTS.parent)]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not of the part that was asked for, and `thorough` tests unless TEST_COMPAT=full."""
    part, named = config.getoption("--part"), _named_paths(config)
    left = set()
    for item in items:
        is_long = _is_long(item)
        if is_long:
            item.add_marker("long")
        is_named = any(item.path == path or item.path.is_relative_to(path) for path in named)
        is_of_other_part = part != "all" and (part == "long") != is_long and not is_named
        if is_of_other_part or (not IS_FULL and item.get_closest_marker("thorough")):
            left.add(item)
    if left:
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
