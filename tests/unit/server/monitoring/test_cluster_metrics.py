"""The nodes of a cluster show leaders, sets in sync, links, followers, and what is missing."""

from functools import partial

from tests.support.exposition import ParsedFamily, parse
from tests.support.waiting import until

from hutong.cli import main
from hutong.server.monitoring.metrics import exposition
from hutong.server.monitoring.survey.result import SurveyLimits
from hutong.testing import EmbeddedCluster
from hutong.testing.node.life import Life

NODES = (1, 2, 3)
OTHERS = {1: {"2", "3"}, 2: {"1", "3"}, 3: {"1", "2"}}
LACKING = "kafka_server_replicamanager_underreplicatedpartitions"
LEADERS = "kafka_server_replicamanager_leadercount"
PARTITIONS = "kafka_server_replicamanager_partitioncount"
ELECTIONS = "kafka_controller_controllerstats_leaderelections_total"
Pages = dict[int, dict[str, ParsedFamily]]


def pages(cluster: EmbeddedCluster) -> Pages:
    """The page of each node that runs."""

    def page(life: Life) -> dict[str, ParsedFamily]:
        return parse(b"".join(exposition(life.sources, SurveyLimits())).decode())

    lives = {number: life for number in NODES if (life := cluster.node(number).life) is not None}
    return {number: cluster.thread.call(partial(page, life)) for number, life in lives.items()}


def total(found: Pages, name: str) -> float:
    return sum(page[name].value() for page in found.values())


def settled_pages(cluster: EmbeddedCluster) -> Pages:
    """The pages of a moment in which each partition has a leader: a busy machine lets leases lapse for a while."""
    found: Pages = {}

    def is_settled() -> bool:
        found.update(pages(cluster))
        return total(found, LEADERS) == found[1][PARTITIONS].value()

    until(is_settled, between_s=0.02)
    return found


def by_labels(family: ParsedFamily) -> dict[tuple[str, ...], float]:
    return {tuple(value for _, value in labels): value for (_, labels), value in family.samples.items()}


def elections_timed(page: dict[str, ParsedFamily]) -> float:
    return page["hutong_election_seconds"].value()


def test_a_whole_cluster_lacks_nothing_and_half_of_one_says_what_it_lacks() -> None:
    with EmbeddedCluster(topics=["orders"]) as cluster:
        cluster.wait_until_in_sync()
        cluster.produce("orders", *("x" * 1000 for _ in range(50)))
        whole = settled_pages(cluster)
        assert total(whole, "kafka_controller_kafkacontroller_activecontrollercount") == 1
        assert total(whole, LACKING) == 0
        assert total(whole, "kafka_server_replicamanager_underminisrpartitioncount") == 0
        assert total(whole, "kafka_controller_kafkacontroller_offlinepartitionscount") == 0
        partitions = whole[1][PARTITIONS].value()
        for number, page in whole.items():
            links = by_labels(page["hutong_link_open"])
            assert links == {(other,): 1 for other in OTHERS[number]}
            assert all(by_labels(page["hutong_link_sent_bytes_total"]).values())
            assert page["hutong_coordinator_connected"].value() == 1
        # By the pages themselves: who leads may change after they were made.
        leader = next(number for number, page in whole.items() if by_labels(page["hutong_replica_lag_bytes"]))
        lags = by_labels(whole[leader]["hutong_replica_lag_bytes"])
        greatest = whole[leader]["kafka_server_replicafetchermanager_maxlag"].value()
        assert greatest == max(lags.values())
        assert {node for _, node in lags} == OTHERS[leader]

        elections = {number: page[ELECTIONS].value() for number, page in whole.items()}
        victim = cluster.controller()
        cluster.kill(victim)
        until(lambda: total(pages(cluster), LACKING) == partitions, between_s=0.02)
        two = pages(cluster)
        assert total(two, "kafka_server_replicamanager_underminisrpartitioncount") == 0
        assert all(page[ELECTIONS].value() > elections[number] for number, page in two.items())
        assert all(elections_timed(page) > elections_timed(whole[number]) for number, page in two.items())
        assert all(by_labels(page["hutong_link_open"])[str(victim),] == 0 for page in two.values())

        last = cluster.controller()
        cluster.kill(next(number for number in two if number != last))
        until(lambda: total(pages(cluster), "kafka_server_replicamanager_leadercount") == 0, between_s=0.02)


def test_no_link_with_a_forgotten_node_is_missing() -> None:
    with EmbeddedCluster() as cluster:
        cluster.wait_until_in_sync()
        victim = 3
        cluster.kill(victim)
        until(lambda: all(by_labels(page["hutong_link_open"])[str(victim),] == 0 for page in pages(cluster).values()))
        assert main.run(["cluster", "forget", str(victim), "--yes", "-b", cluster.node(1).bootstrap]) == 0
        until(lambda: all(links == {(other,): 1} for links, other in links_of_two(cluster)), between_s=0.02)


def links_of_two(cluster: EmbeddedCluster) -> list[tuple[dict[tuple[str, ...], float], str]]:
    """The links of nodes 1 and 2, each with the number of the other."""
    found = pages(cluster)
    return [(by_labels(found[number]["hutong_link_open"]), other) for number, other in ((1, "2"), (2, "1"))]
