"""Security: handshakes and authentications that failed, and requests that were denied.

Knows nothing of certificates, users or rules: the rooms that refuse count.
"""

from typing import Final

from hutong.server.monitoring.metric import Metric

METRICS: Final[tuple[Metric, ...]] = ()
