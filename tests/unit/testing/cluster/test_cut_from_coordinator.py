"""A node that is cut off from the coordinator alone hears from the other nodes who leads, and tells its clients."""

from tests.support.waiting import until

from hutong.testing import EmbeddedCluster, Topic
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataRequestTopic

METADATA_VERSION = 9


def test_the_former_controller_hears_of_its_successor_and_of_all_leaders() -> None:
    with EmbeddedCluster(topics=[Topic("orders", partitions=6)]) as cluster:
        cluster.wait_until_in_sync()
        number = cluster.controller()
        node = cluster.node(number)
        # A client of librdkafka would ask the other nodes as well.
        asking = cluster._reached()[number]
        cluster.thread.call(lambda: node._place.ensemble.suspend(number))

        def shown() -> tuple[int, set[int]]:
            request = MetadataRequest([MetadataRequestTopic(name="orders")], allow_auto_topic_creation=False)
            metadata = cluster.run(asking.ask(request, METADATA_VERSION))
            return metadata.controller_id, {each.leader_id for each in metadata.topics[0].partitions}

        others = {1, 2, 3} - {number}
        until(lambda: shown()[0] in others and shown()[1] <= others, what="the next leaders")
        assert cluster.coordinator_of("any") in others
        cluster.heal(number)
        cluster.wait_until_in_sync()
