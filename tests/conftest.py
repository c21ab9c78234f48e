"""What holds for all tests: the plugin that we give to others, and which tests are left to thorough runs."""

import pytest
from tests.compat.report import IS_FULL

# Named here so that it is there without an installation.
pytest_plugins = ["hutong.testing.plugin"]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `thorough` take long for what they add; they run with TEST_COMPAT=full."""
    later = [] if IS_FULL else [item for item in items if item.get_closest_marker("thorough")]
    if later:
        config.hook.pytest_deselected(items=later)
        left = set(later)
        items[:] = [item for item in items if item not in left]
