"""Testing: the same broker as a test double, for users; stand-ins for the machine, for our own tests.

Users import the names of this package; `hutong.testing.plugin` brings them to pytest. Every other module here is for
this project alone: disks (a simulated one that crashes, and others), faults and the rest.

Names are brought in when they are asked for, since a plugin is imported by every run of pytest, whether it needs a
broker or not.
"""

from typing import TYPE_CHECKING

from hutong.foundation.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from hutong.testing.cluster.embedded import EmbeddedCluster
    from hutong.testing.cluster.member import ClusterMember
    from hutong.testing.faults.switches import Fault
    from hutong.testing.node.embedded import EmbeddedNode
    from hutong.testing.node.services import Services
    from hutong.testing.values import Group, Member, Record, Standing, Topic, WaitFailed

__all__ = [
    "ClusterMember",
    "EmbeddedCluster",
    "EmbeddedNode",
    "Fault",
    "Group",
    "Member",
    "Record",
    "Services",
    "Standing",
    "Topic",
    "WaitFailed",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "testing.cluster.embedded": ("EmbeddedCluster",),
        "testing.cluster.member": ("ClusterMember",),
        "testing.faults.switches": ("Fault",),
        "testing.node.embedded": ("EmbeddedNode",),
        "testing.node.services": ("Services",),
        "testing.values": ("Group", "Member", "Record", "Standing", "Topic", "WaitFailed"),
    },
)
