"""No test asserts how long something takes, and none sleeps where it could wait: the suite passes on a slow machine.

A quantity is asserted in the place of a time: steps, calls, bytes, callbacks. What costs time is measured by `bench`.
Strategy: the source is read. A number is a time where it is made with a clock, in the same function, or is named like
one. Allowed are lower bounds, which a slow machine only makes truer, and the end of a wait that would hang otherwise,
which has a name of its own.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "tests").rglob("*.py"))
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "process_time_ns"} | {
    "thread_time",
    "thread_time_ns",
    "thread_processor_us",
}
LIKE_A_TIME = ("took", "elapsed", "longest_s", "longest_ms", "longest_us", "latency", "lateness", "wall_s", "cpu_s")
ENDS_OF_WAITS = {"deadline_s", "end", "end_s", "give_up", "give_up_s"}
TIMEOUT_S_MIN = 10  # of what is not expected to expire; what is, has a timeout of less than a second

# Who sleeps, and why nothing can be waited for in its place.
SLEEPERS = {
    "compat/grpc_services.py": "a service whose answer takes as long as its caller says",
    "compat/order_service/with_aiokafka.py": "an application's pause before it tries again",
    "fault/test_exactly_once.py": "kills come at random moments",
    "fault/test_pipeline_kill.py": "kills come at random moments",
    "support/churn.py": "clients come and go at random moments",
    "support/durable.py": "a load with a bounded rate",
    "support/durable_worker.py": "a handler that takes its time",
    "support/faulty_node.py": "a disk that stalls",
    "support/frame_chaos.py": "delays on the line",
    "support/own_node.py": "a load with a bounded rate",
    "support/rpc_ledger.py": "effects that take their time",
    "support/slow_way.py": "delays on the line",
    "support/waiting.py": "the time between two questions to another process",
    "unit/cluster/coordinator/test_memory.py": "in virtual time, which takes none",
    "unit/rpc/grpc/test_hostile_clients.py": "gRPC's network has no event for what is waited for",
    "unit/rpc/grpc/serving/test_server.py": "gRPC's network has no event for what is waited for",
    "unit/rpc/scenes.py": "the same, where a timer is waited for",
    "unit/rpc/test_bindings.py": "a blocking method; a task that is cancelled",
    "unit/runtime/contexts/test_workers.py": "sleeping on a worker is what is tested",
    "unit/testing/simulation/test_loop.py": "in virtual time, which takes none",
}


def clock_in(node: ast.AST) -> bool:
    return any(isinstance(call, ast.Call) and name_of(call.func) in CLOCKS for call in ast.walk(node))


def name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def is_like_a_time(node: ast.expr) -> bool:
    return any(word in ast.unparse(node) for word in LIKE_A_TIME)


def upper_bounds(test: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Pairs of an assertion: the first is asserted to be the smaller one."""
    for compare in ast.walk(test):
        if isinstance(compare, ast.Compare):
            operands = [compare.left, *compare.comparators]
            for left, operator, right in zip(operands, compare.ops, operands[1:], strict=False):
                if isinstance(operator, ast.Lt | ast.LtE):
                    yield left, right
                elif isinstance(operator, ast.Gt | ast.GtE):
                    yield right, left


def timed_names(function: ast.AST) -> set[str]:
    """Names of time spans: the clock less something."""
    return {
        target.id
        for assign in ast.walk(function)
        if isinstance(assign, ast.Assign)
        and any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub) for part in ast.walk(assign.value))
        and clock_in(assign.value)
        for target in assign.targets
        if isinstance(target, ast.Name)
    }


def time_assertions(source: str) -> list[str]:
    """The assertions that a slow machine fails."""
    tree = ast.parse(source)
    names = timed_names(tree)
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assert):
            continue
        for smaller, greater in upper_bounds(node.test):
            text = ast.unparse(smaller)
            is_time = clock_in(smaller) or any(name in text.split() for name in names)
            is_time = is_time or is_like_a_time(smaller)
            is_end = ast.unparse(greater).split()[0] in ENDS_OF_WAITS
            if is_time and not is_end and not is_like_a_time(greater):  # two times of one record may be compared
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def short_timeouts(source: str) -> list[str]:
    """Timeouts of some seconds: too long to be expected, too short for a busy machine."""
    found = []
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call) or ast.unparse(call.func) not in ("asyncio.timeout", "asyncio.wait_for"):
            continue
        for value in call.args[:1] if name_of(call.func) == "timeout" else call.args[1:2]:
            is_number = isinstance(value, ast.Constant) and isinstance(value.value, int | float)
            if is_number and 1 <= value.value < TIMEOUT_S_MIN:  # type: ignore[attr-defined]
                found.append(f"line {call.lineno}: {ast.unparse(call)}")
    return found


def sleeps(source: str) -> list[str]:
    """Calls that sleep for longer than a turn of the loop."""
    return [
        f"line {call.lineno}: {ast.unparse(call)}"
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "sleep"
        and ast.unparse(call.func.value) in ("asyncio", "time", "anyio")
        and not (call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT / "tests")))
def test_nothing_depends_on_how_fast_the_machine_is(path: Path) -> None:
    source = path.read_text()
    assert time_assertions(source) == []
    assert short_timeouts(source) == []
    if str(path.relative_to(ROOT / "tests")) not in SLEEPERS:
        assert sleeps(source) == []


def test_every_exception_is_used() -> None:
    assert [name for name in SLEEPERS if not sleeps((ROOT / "tests" / name).read_text())] == []


@pytest.mark.parametrize(
    "source",
    [
        "began = time.process_time()\nassert time.process_time() - began < 0.25",
        "took = perf_counter() - began\nassert took <= LIMIT",
        "spent = time.monotonic() - began\nassert 5 > spent",
        "assert quantile(pinger.took_ms, 0.99) < 100",
        "assert 0 < node.longest_s < 2, 'a pause'",
    ],
)
def test_an_upper_bound_of_a_time_is_found(source: str) -> None:
    assert len(time_assertions(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "assert time.monotonic() - began >= 0.2",
        "assert time.monotonic() < give_up, 'nothing came'",
        "assert clock.advanced_ms < 10",
        "assert len(steps) < 100",
    ],
)
def test_what_a_slow_machine_does_not_fail_is_allowed(source: str) -> None:
    assert time_assertions(source) == []


def test_a_sleep_and_a_short_timeout_are_found() -> None:
    assert len(sleeps("await asyncio.sleep(0.1)\ntime.sleep(pause)\nawait asyncio.sleep(0)")) == 2
    assert (
        len(short_timeouts("async with asyncio.timeout(5): ...\nasyncio.wait_for(it, 0.01)\nasyncio.timeout(30)")) == 1
    )
