"""The order service on confluent-kafka, tested against an embedded node as docs/testing.md shows."""

import pytest
from tests.compat.order_service.invoices import GROUP, INVOICES, ORDERS, REJECTED, order, orders_in
from tests.compat.order_service.with_confluent import running

from hutong.testing import EmbeddedNode

pytestmark = [
    pytest.mark.hutong_topic(ORDERS, partitions=2),
    pytest.mark.hutong_topic(INVOICES),
    pytest.mark.hutong_topic(REJECTED),
]
TIMEOUT_S = 30.0  # of waits for clients that back off


def send_orders(node: EmbeddedNode, *numbers: int) -> None:
    for number in numbers:
        node.produce(ORDERS, order(number), key=f"customer-{number}", partition=number % 2)


def test_every_order_gets_its_invoice(hutong_node: EmbeddedNode, kafka_bootstrap: str) -> None:
    send_orders(hutong_node, 1, 2, 3)
    with running(kafka_bootstrap):
        invoices = hutong_node.records(INVOICES, count=3)
        hutong_node.wait_for_lag(GROUP, ORDERS)
    assert orders_in(invoices) == [1, 2, 3]
    third = next(invoice for invoice in invoices if invoice.json()["order"] == 3)
    assert (third.key, third.json()["total"]) == (b"customer-3", 15)


def test_a_poisoned_order_is_put_aside_and_holds_up_nobody(hutong_node: EmbeddedNode, kafka_bootstrap: str) -> None:
    hutong_node.produce(ORDERS, "no JSON", key="k")
    send_orders(hutong_node, 2)
    with running(kafka_bootstrap):
        (rejected,) = hutong_node.records(REJECTED, count=1)
        hutong_node.wait_for_lag(GROUP, ORDERS)
    assert (rejected.key, rejected.value) == (b"k", b"no JSON")
    assert (rejected.header("error") or b"").startswith(b"JSONDecodeError")
    assert orders_in(hutong_node.records(INVOICES)) == [2]


def test_two_of_them_share_the_work_and_one_takes_over(hutong_node: EmbeddedNode, kafka_bootstrap: str) -> None:
    with running(kafka_bootstrap, "first"):
        with running(kafka_bootstrap, "second"):
            group = hutong_node.wait_for_group(GROUP, members=2, timeout=TIMEOUT_S)
            assert {member.client_id: len(member.partitions) for member in group.members} == {"first": 1, "second": 1}
            send_orders(hutong_node, 1, 2, 3, 4)
            hutong_node.wait_for_lag(GROUP, ORDERS, timeout=TIMEOUT_S)
        hutong_node.wait_for_group(GROUP, members=1, timeout=TIMEOUT_S)
        send_orders(hutong_node, 5, 6)
        hutong_node.wait_for_lag(GROUP, ORDERS, timeout=TIMEOUT_S)
    assert orders_in(hutong_node.records(INVOICES)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("end", ["restart", "kill"])
def test_a_broker_that_comes_back_costs_no_order(hutong_node: EmbeddedNode, kafka_bootstrap: str, end: str) -> None:
    send_orders(hutong_node, *range(10))
    with running(kafka_bootstrap):
        hutong_node.records(INVOICES, count=1)  # it is in the middle of it
        if end == "kill":
            hutong_node.kill()
            hutong_node.start()
        else:
            hutong_node.restart()
        send_orders(hutong_node, *range(10, 20))
        hutong_node.wait_for_lag(GROUP, ORDERS, timeout=TIMEOUT_S)
    assert set(orders_in(hutong_node.records(INVOICES))) == set(range(20))


def test_a_broken_disk_costs_no_order(hutong_node: EmbeddedNode, kafka_bootstrap: str) -> None:
    send_orders(hutong_node, 1, 2)
    failing = hutong_node.faults.fail_fsync("records")
    with running(kafka_bootstrap):
        hutong_node.wait_for_fault(failing, timeout=TIMEOUT_S)  # there is no invoice, and so no commit
        assert sum(standing.lag for standing in hutong_node.standings(GROUP, ORDERS)) == 2
        failing.heal()
        hutong_node.restart()
        send_orders(hutong_node, 3)
        hutong_node.wait_for_lag(GROUP, ORDERS, timeout=TIMEOUT_S)
    assert set(orders_in(hutong_node.records(INVOICES))) == {1, 2, 3}


def test_a_lost_answer_makes_no_second_invoice(hutong_node: EmbeddedNode, kafka_bootstrap: str) -> None:
    lost = hutong_node.faults.lose_answers(api="Produce")
    send_orders(hutong_node, 1)
    with running(kafka_bootstrap):
        hutong_node.wait_for_lag(GROUP, ORDERS, timeout=TIMEOUT_S)
    assert lost.hits == 1
    assert orders_in(hutong_node.records(INVOICES)) == [1]


def test_a_leader_that_moves_is_asked_again(hutong_node: EmbeddedNode, kafka_bootstrap: str) -> None:
    refused = hutong_node.faults.refuse_requests("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    send_orders(hutong_node, 1)
    with running(kafka_bootstrap):
        hutong_node.wait_for_lag(GROUP, ORDERS, timeout=TIMEOUT_S)
    assert refused.hits == 2
    assert orders_in(hutong_node.records(INVOICES)) == [1]
