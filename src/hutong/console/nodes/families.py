"""The metrics of a node that the console reads, and the labels that it keeps of each.

Knows no page of the console.
"""

from collections.abc import Mapping
from typing import Final

from hutong.console.nodes.samples import Kept

_ONE: Final = Kept()
_BY_GROUP: Final = Kept(("group",))
_BY_TOPIC: Final = Kept(("topic",), with_fewer=True)  # the sum of all topics has none
_BY_REQUEST: Final = Kept(("request",))
_OF_CONSUMERS: Final = ("consumergroup", "topic")


def _histogram(name: str, *labels: str) -> dict[str, Kept]:
    return {
        f"{name}_bucket": Kept((*labels, "le")),
        f"{name}_sum": Kept(labels),
        f"{name}_count": Kept(labels),
    }


KEPT: Final[Mapping[str, Kept]] = {
    # The process and its machine.
    "hutong_node_info": Kept(("version", "python", "node_id", "cluster_id", "record_checks"), with_fewer=True),
    "hutong_clock_ahead_seconds": _ONE,
    "hutong_volume_size_bytes": _ONE,
    "hutong_volume_free_bytes": _ONE,
    "process_cpu_seconds_total": _ONE,
    "process_resident_memory_bytes": _ONE,
    "process_open_fds": _ONE,
    "process_max_fds": _ONE,
    "process_start_time_seconds": _ONE,
    **_histogram("hutong_loop_lateness_seconds"),
    **_histogram("hutong_loop_work_seconds"),
    # Journals.
    **_histogram("hutong_produce_stage_seconds", "group", "stage"),
    **_histogram("hutong_chunk_bytes", "group"),
    **_histogram("hutong_chunk_batches", "group"),
    "hutong_flushes_total": _BY_GROUP,
    "hutong_flushed_bytes_total": _BY_GROUP,
    "hutong_unreleased_bytes": _BY_GROUP,
    "hutong_region_hot_bytes": _BY_GROUP,
    "hutong_region_escaped_bytes": _BY_GROUP,
    "hutong_group_congested": _BY_GROUP,
    "hutong_group_disk_full": _BY_GROUP,
    "hutong_group_short_of_files": _BY_GROUP,
    "hutong_group_failed": _BY_GROUP,
    "hutong_acknowledgements_total": Kept(("group", "outcome")),
    "hutong_failed_reads_total": _BY_GROUP,
    "hutong_damaged_reads_total": _ONE,
    # Connections and requests.
    "hutong_listener_connections": Kept(("listener",)),
    "hutong_web_connections": Kept(("server",)),
    "hutong_connections_open": _ONE,
    "hutong_connections_accepted_total": _ONE,
    "hutong_connections_refused_total": Kept(("reason",)),
    "hutong_received_bytes_total": _ONE,
    "hutong_sent_bytes_total": _ONE,
    "hutong_connection_memory_bytes": _ONE,
    "hutong_connection_memory_limit_bytes": _ONE,
    "hutong_waits": Kept(("lot",)),
    "kafka_network_requestmetrics_requests_total": _BY_REQUEST,
    "kafka_network_requestmetrics_errors_total": Kept(("request", "error")),
    **_histogram("hutong_request_seconds", "request"),
    # Security.
    "hutong_tls_certificate_expiry_timestamp_seconds": Kept(fold=min),
    "hutong_tls_crl_expiry_timestamp_seconds": Kept(fold=min),
    "hutong_tls_certificate_loads_total": Kept(("result",)),
    "kafka_server_socket_server_metrics_failed_authentication_total": _ONE,
    "hutong_authorization_denied_total": Kept(("resource",)),
    # Topics and consumers.
    "kafka_controller_kafkacontroller_globaltopiccount": _ONE,
    "kafka_controller_kafkacontroller_globalpartitioncount": _ONE,
    "kafka_server_brokertopicmetrics_messagesin_total": _BY_TOPIC,
    "kafka_server_brokertopicmetrics_bytesin_total": _BY_TOPIC,
    "kafka_server_brokertopicmetrics_bytesout_total": _BY_TOPIC,
    "kafka_consumergroup_members": Kept(("consumergroup",)),
    "kafka_consumergroup_lag": Kept(_OF_CONSUMERS),
    "kafka_consumergroup_lag_seconds": Kept(_OF_CONSUMERS, max),
    "kafka_consumergroup_current_offset": Kept(_OF_CONSUMERS),
    "hutong_sharegroup_lag_seconds": Kept(("sharegroup", "topic"), max),
    "hutong_group_rebalances_total": _ONE,
    "hutong_transaction_oldest_seconds": _ONE,
    "hutong_metrics_folded": Kept(("kind",)),
    # The cluster, as this node sees it.
    "kafka_controller_kafkacontroller_offlinepartitionscount": _ONE,
    "kafka_server_replicamanager_underminisrpartitioncount": _ONE,
    "kafka_server_replicamanager_underreplicatedpartitions": _ONE,
    "hutong_coordinator_connected": _ONE,
    "hutong_link_open": Kept(("node",)),
}
