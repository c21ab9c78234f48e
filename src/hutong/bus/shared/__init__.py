"""Counters, locks and maps that all nodes of a bus share: see docs/shared-data.md."""

from hutong.bus.shared.counter import SharedCounter
from hutong.bus.shared.lock import HeldLock, SharedLock
from hutong.bus.shared.map import SharedMap
from hutong.bus.shared.shared import SharedData

__all__ = ["HeldLock", "SharedCounter", "SharedData", "SharedLock", "SharedMap"]
