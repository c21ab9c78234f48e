"""The metrics that one client is asked for (KIP-714).

Knows nothing of settings.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

_INT32: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class MetricSubscription:
    """Names of metrics, or their beginnings. Without any the client pushes nothing, and asks after the interval."""

    metrics: tuple[str, ...]
    interval_ms: int

    def id_for(self, instance_id: bytes) -> int:
        """An id that another subscription, or another client, most likely does not have."""
        content = "\0".join((str(self.interval_ms), *self.metrics)).encode() + instance_id
        return zlib.crc32(content) - _INT32
