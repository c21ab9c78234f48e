"""HTTP at three nodes: each serves what all of them have, and goes on without one of them."""

from tests.support.waiting import until
from tests.unit.rest.scene import RestClient

from hutong.testing import EmbeddedCluster, Topic

SETTINGS = {
    "http.listen": "127.0.0.1:0",
    # A machine that runs all tests at once must take no node for slow, or for dead.
    "cluster.lag_ms_max": "20000",
    "cluster.session_timeout_ms": "5000",
}


def test_any_node_serves_records_that_others_lead() -> None:
    with EmbeddedCluster(3, topics=[Topic("t", partitions=6)], settings=SETTINGS) as cluster:
        clients = [RestClient(node.http or "").begin() for node in cluster.nodes]
        assert len({client.cluster for client in clients}) == 1
        assert len(clients[0].of("GET", "/brokers").value["data"]) == 3
        records = [{"partition_id": number, "value": {"type": "STRING", "data": str(number)}} for number in range(6)]
        for client in clients:
            assert [answer["error_code"] for answer in client.produce("t", *records)] == [200] * 6
        leaders = {each["leader_id"] for each in clients[0].of("GET", "/topics/t/partitions").value["data"]}
        for client in clients:
            for number in range(6):
                path = f"/topics/t/partitions/{number}/records?max_records=3&wait_ms=20000"
                found = client.of("GET", path).value["data"]
                assert [record["value"]["data"] for record in found] == [str(number)] * len(found)
        victim = min(leaders)
        cluster.kill(victim)
        survivor = next(client for node, client in zip(cluster.nodes, clients, strict=True) if node.number != victim)
        # The next leaders are found by the Kafka client behind it.
        until(lambda: _is_stored(survivor, records), what="records at all partitions again", deadline_s=60)


def _is_stored(client: RestClient, records: list[dict[str, object]]) -> bool:
    answers = client.produce("t", *records)
    return [answer["error_code"] for answer in answers] == [200] * len(records)
