"""For all histories every message is handled or buried at least once, in order, and no offset passes an unfinished
one."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.bus.durable.stage import Stage, log_of

from hutong.bus.durable.consume.messages import ConsumerBounds, Demand
from hutong.bus.durable.consume.retry import Order, Retry

PARTITIONS, RECORDS = 3, 25
RETRY = Retry(attempts=3, first_delay=0.01, jitter=0, crashes=2)
steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["fetch", "fetch", "succeed", "succeed", "fail", "wait", "commit", "rebalance", "crash", "demand"]
        ),
        st.integers(0, 9),
    ),
    max_size=150,
)


def step(stage: Stage, kind: str, number: int) -> None:
    partition = number % PARTITIONS
    match kind:
        case "fetch":
            stage.fetch(partition, 1 + number)
        case "succeed" | "fail" if stage.running:
            entry = stage.running[number % len(stage.running)]
            _ = stage.succeed(entry) if kind == "succeed" else stage.fail(entry)
        case "wait":
            stage.wait(number * 5)
        case "commit":
            stage.commit()
        case "rebalance" if partition in stage.position:
            stage.revoke(partition)
        case "rebalance":
            stage.assign(partition)
        case "crash":
            stage.start()
            stage.assign(*range(PARTITIONS))
        case "demand":
            stage.play(Demand(None if number > 4 else number))


def finish(stage: Stage) -> None:
    """From here on nothing goes wrong any more."""
    stage.play(Demand(None))
    stage.assign(*(number for number in stage.log if number not in stage.position))
    for _ in range(3 * PARTITIONS * RECORDS):
        for number in stage.log:
            stage.fetch(number, RECORDS)
        for entry in list(stage.running):
            stage.succeed(entry)
        stage.wait(10_000)
    assert not stage.running, "it stands still"


@settings(max_examples=300, deadline=None)
@given(steps, st.sampled_from(Order), st.sampled_from([1, 2, 64]), st.sampled_from([3, 1_000]))
def test_at_least_once_in_order_and_never_past_an_unfinished_one(
    script: list[tuple[str, int]], order: Order, handling: int, records: int
) -> None:
    stage = Stage(log_of(RECORDS, partitions=PARTITIONS, keys=4), RETRY, order, ConsumerBounds(handling, records))
    stage.assign(*range(PARTITIONS))
    for kind, number in script:
        step(stage, kind, number)
    finish(stage)
    stage.commit()
    assert stage.done == {(number, offset) for number in range(PARTITIONS) for offset in range(RECORDS)}
    assert stage.machine.handling == 0
    assert stage.machine.next_tick_ms() is None
    ends = {number: offset for number, (offset, _) in stage.committed.items()}
    assert ends == dict.fromkeys(range(PARTITIONS), RECORDS)
