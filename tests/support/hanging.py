"""A pytest plugin: a test that hangs fails alone, with the stacks of all threads, and the run goes on to its end."""

import asyncio
import signal
from collections.abc import Generator
from types import FrameType
from typing import Any, Final

import pytest

AGAIN_S: Final = 10.0  # after a test was failed: closing its loop may hang, too
SETTINGS: Final = pytest.StashKey[Any]()  # of the item's timeout


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, Any, Any]:
    """Let the timeout of a test also end a loop of uvloop, which only logs what a signal's handler raises."""
    is_set = yield
    item.stash[SETTINGS] = settings
    fail = signal.getsignal(signal.SIGALRM)
    if not callable(fail):  # the timeout's method is another one
        return is_set

    def end(number: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        loop = asyncio._get_running_loop()
        if loop is not None:
            loop.stop()  # `run_until_complete` raises then, in the test
        fail(number, frame)

    signal.signal(signal.SIGALRM, end)
    return is_set


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Set the timer for each further run of a test: pytest-timeout 2.4 sets one for all of them, until one fails."""
    if getattr(item, "execution_count", 1) > 1 and SETTINGS in item.stash:
        item.config.hook.pytest_timeout_set_timer(item=item, settings=item.stash[SETTINGS])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    """Distribute files such that the run ends after a worker has died.

    xdist 3.8 hands finished files of a dead worker to the next one, and waits for ever for their tests. It also gives
    a new worker one file, and a worker starts a test when it knows the one after it, or that there is none.
    """
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]
        def remove_node(self, node: Any) -> str | None:
            work = self.assigned_work[node]
            for name in [name for name, tests in work.items() if all(tests.values())]:
                del work[name]
            crashed: str | None = super().remove_node(node)
            return crashed

        def schedule(self) -> None:
            super().schedule()
            for node in self.nodes:
                self._reschedule(node)

    scheduling = Scheduling(config, log)
    config.pluginmanager.register(Interrupted(config, scheduling))
    return scheduling


class Interrupted:
    """Name the tests that had not ended when a run is interrupted, as `.ci/run` does when its time is up."""

    def __init__(self, config: pytest.Config, scheduling: Any) -> None:
        self._config = config
        self._scheduling = scheduling
        signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, *_: object) -> None:
        # `timeout` and `uv run` both pass the signal on: a second one would end pytest before its closing line.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None:
            return
        reporter.write_line("")
        for node, work in self._scheduling.assigned_work.items():
            tests = [test for tests in work.values() for test, has_ended in tests.items() if not has_ended]
            if tests:  # a worker runs them in this order
                reporter.write_line(f"[{node.gateway.id}] had not ended: {tests[0]}, with {len(tests) - 1} to follow")
