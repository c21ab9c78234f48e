"""The settings that a cluster is founded with, and the partition groups that follow from them.

Strategy: a node opens its journals before it knows the cluster's metadata, so it takes its own settings, and does not
start where the cluster was founded with others. The controller goes by what the metadata say.

Pure.
"""

from hutong.broker.topics.lifetimes import METADATA_GROUP, coordinator_groups, data_groups
from hutong.cluster.records import FoundingSettings
from hutong.server.configuration.sections.cluster import NodeClusterSettings


def founding_of(settings: NodeClusterSettings) -> FoundingSettings:
    """The settings of a cluster that a node with its own ones founds."""
    return FoundingSettings(
        slots=settings.slots,
        replicas=settings.replicas,
        min_in_sync=settings.min_in_sync,
        coordinators=settings.coordinators,
    )


def groups_of_cluster(settings: FoundingSettings | NodeClusterSettings) -> tuple[str, ...]:
    """The names of all partition groups of a cluster."""
    return (METADATA_GROUP, *coordinator_groups(settings.coordinators), *data_groups(settings.slots))


def difference_from(founded: FoundingSettings | None, settings: NodeClusterSettings) -> str | None:
    """The reason for which a node cannot be in the cluster: it has other partition groups. None if it has the same."""
    if founded is None:
        return None
    for name, here, there in (
        ("slots", settings.slots, founded.slots),
        ("coordinators", settings.coordinators, founded.coordinators),
    ):
        if here != there:
            return f"The cluster was founded with {there} {name}, and this node has {here}; set cluster.{name}={there}."
    return None
