"""The order service on aiokafka, tested on the loop on which it runs: every wait is awaited by `hutong_node.aio`."""

import pytest
from tests.compat.order_service.invoices import GROUP, INVOICES, ORDERS, REJECTED, order, orders_in
from tests.compat.order_service.with_aiokafka import running

from hutong.testing import EmbeddedNode

pytestmark = [
    pytest.mark.hutong_topic(ORDERS, partitions=2),
    pytest.mark.hutong_topic(INVOICES),
    pytest.mark.hutong_topic(REJECTED),
    # aiokafka leaves the socket of a broken connection to the collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning"),
]
TIMEOUT_S = 30.0  # of waits for clients that back off


async def send_orders(node: EmbeddedNode, *numbers: int) -> None:
    for number in numbers:
        await node.aio.produce(ORDERS, order(number), key=f"customer-{number}", partition=number % 2)


async def test_every_order_gets_its_invoice(hutong_node: EmbeddedNode, kafka_bootstrap: str) -> None:
    await send_orders(hutong_node, 1, 2, 3)
    async with running(kafka_bootstrap):
        invoices = await hutong_node.aio.records(INVOICES, count=3)
        await hutong_node.aio.wait_for_lag(GROUP, ORDERS)
    assert orders_in(invoices) == [1, 2, 3]
    third = next(invoice for invoice in invoices if invoice.json()["order"] == 3)
    assert (third.key, third.json()["total"]) == (b"customer-3", 15)


async def test_a_poisoned_order_is_put_aside_and_holds_up_nobody(
    hutong_node: EmbeddedNode, kafka_bootstrap: str
) -> None:
    await hutong_node.aio.produce(ORDERS, "no JSON", key="k")
    await send_orders(hutong_node, 2)
    async with running(kafka_bootstrap):
        (rejected,) = await hutong_node.aio.records(REJECTED, count=1)
        await hutong_node.aio.wait_for_lag(GROUP, ORDERS)
        assert orders_in(await hutong_node.aio.records(INVOICES)) == [2]
    assert (rejected.key, rejected.value) == (b"k", b"no JSON")
    assert (rejected.header("error") or b"").startswith(b"JSONDecodeError")


async def test_two_of_them_share_the_work_and_one_takes_over(hutong_node: EmbeddedNode, kafka_bootstrap: str) -> None:
    async with running(kafka_bootstrap, "first"):
        async with running(kafka_bootstrap, "second"):
            group = await hutong_node.aio.wait_for_group(GROUP, members=2, timeout=TIMEOUT_S)
            assert {member.client_id: len(member.partitions) for member in group.members} == {"first": 1, "second": 1}
            await send_orders(hutong_node, 1, 2, 3, 4)
            await hutong_node.aio.wait_for_lag(GROUP, ORDERS, timeout=TIMEOUT_S)
        await hutong_node.aio.wait_for_group(GROUP, members=1, timeout=TIMEOUT_S)
        await send_orders(hutong_node, 5, 6)
        await hutong_node.aio.wait_for_lag(GROUP, ORDERS, timeout=TIMEOUT_S)
    assert orders_in(await hutong_node.aio.records(INVOICES)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("end", ["restart", "kill"])
async def test_a_broker_that_comes_back_costs_no_order(
    hutong_node: EmbeddedNode, kafka_bootstrap: str, end: str
) -> None:
    await send_orders(hutong_node, *range(10))
    async with running(kafka_bootstrap):
        await hutong_node.aio.records(INVOICES, count=1)  # it is in the middle of it
        if end == "kill":
            await hutong_node.aio.kill()
            await hutong_node.aio.start()
        else:
            await hutong_node.aio.restart()
        await send_orders(hutong_node, *range(10, 20))
        await hutong_node.aio.wait_for_lag(GROUP, ORDERS, timeout=TIMEOUT_S)
    assert set(orders_in(await hutong_node.aio.records(INVOICES))) == set(range(20))


async def test_a_broken_disk_costs_no_order(hutong_node: EmbeddedNode, kafka_bootstrap: str) -> None:
    await send_orders(hutong_node, 1, 2)
    failing = hutong_node.faults.fail_fsync("records")
    async with running(kafka_bootstrap):
        await hutong_node.aio.wait_for_fault(failing, timeout=TIMEOUT_S)  # there is no invoice, and so no commit
        assert sum(standing.lag for standing in hutong_node.standings(GROUP, ORDERS)) == 2
        failing.heal()
        await hutong_node.aio.restart()
        await send_orders(hutong_node, 3)
        await hutong_node.aio.wait_for_lag(GROUP, ORDERS, timeout=TIMEOUT_S)
    assert set(orders_in(await hutong_node.aio.records(INVOICES))) == {1, 2, 3}


async def test_a_lost_answer_makes_no_second_invoice(hutong_node: EmbeddedNode, kafka_bootstrap: str) -> None:
    lost = hutong_node.faults.lose_answers(api="Produce")
    await send_orders(hutong_node, 1)
    async with running(kafka_bootstrap):
        await hutong_node.aio.wait_for_lag(GROUP, ORDERS, timeout=TIMEOUT_S)
    assert lost.hits == 1
    assert orders_in(await hutong_node.aio.records(INVOICES)) == [1]


async def test_a_leader_that_moves_is_asked_again(hutong_node: EmbeddedNode, kafka_bootstrap: str) -> None:
    refused = hutong_node.faults.refuse_requests("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    await send_orders(hutong_node, 1)
    async with running(kafka_bootstrap):
        await hutong_node.aio.wait_for_lag(GROUP, ORDERS, timeout=TIMEOUT_S)
    assert refused.hits == 2
    assert orders_in(await hutong_node.aio.records(INVOICES)) == [1]
