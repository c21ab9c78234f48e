"""Every fuzz target, by its name."""

from typing import Final

from tests.fuzz import (
    bus_targets,
    cluster_bus_targets,
    cluster_targets,
    console_targets,
    content_targets,
    handler_targets,
    kafka_targets,
    node_targets,
    peer_targets,
    pipeline_targets,
    registry_targets,
    rocketmq_body_targets,
    rocketmq_targets,
    security_targets,
    selector_targets,
    settings_targets,
    sockjs_targets,
    storage_targets,
    web_targets,
)
from tests.fuzz.target import Target

TARGETS: Final[dict[str, Target]] = {
    target.name: target
    for module in (
        kafka_targets,
        content_targets,
        storage_targets,
        bus_targets,
        sockjs_targets,
        web_targets,
        console_targets,
        handler_targets,
        security_targets,
        selector_targets,
        settings_targets,
        node_targets,
        pipeline_targets,
        registry_targets,
        rocketmq_body_targets,
        rocketmq_targets,
        cluster_targets,
        cluster_bus_targets,
        peer_targets,
    )
    for target in module.TARGETS
}
