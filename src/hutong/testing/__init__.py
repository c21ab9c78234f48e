"""Testing: the same broker as a test double, for users; stand-ins for the machine, for our own tests.

Users import the names of this package; `hutong.testing.plugin` brings them to pytest. Every other module here is for
this project alone: disk (a simulated one that crashes), faulty_disk, faults and the rest.

Names are brought in when they are asked for, since a plugin is imported by every run of pytest, whether it needs a
broker or not.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hutong.testing.embedded import EmbeddedNode
    from hutong.testing.services import Services
    from hutong.testing.switches import Fault
    from hutong.testing.values import Group, Member, Record, Standing, Topic, WaitFailed

__all__ = ["EmbeddedNode", "Fault", "Group", "Member", "Record", "Services", "Standing", "Topic", "WaitFailed"]

_HOMES = {"EmbeddedNode": "embedded", "Fault": "switches", "Services": "services"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'values')}"), name)
