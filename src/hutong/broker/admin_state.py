"""State that administrators set for the whole node: quotas, features, users' credentials, ACLs, settings.

All of it is kept in the node's metadata, with the catalogue of topics; this module hands each record to its table.
Knows nothing of requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from hutong.broker.authentication.delegation_tokens import DelegationTokens, TokenLimits
from hutong.broker.authentication.scram import ScramUsers
from hutong.broker.configs.features import Features
from hutong.broker.configs.metrics_configs import MetricsConfigs
from hutong.broker.configs.node_configs import NodeConfigs
from hutong.broker.quotas.book import QuotaBook
from hutong.broker.rights.acl_table import AclTable

if TYPE_CHECKING:
    from hutong.broker.topics.catalogue import WideStateLog


class AdminState:
    """Replayed and started together. `topic_defaults` are the settings of topics that the node was started with."""

    def __init__(
        self,
        node_id: int,
        topic_defaults: Mapping[str, str],
        random_bytes: Callable[[int], bytes],
        tokens: TokenLimits | None = None,
    ) -> None:
        self.features = Features()
        self.quotas = QuotaBook()
        self.scram = ScramUsers(random_bytes)
        self.delegation_tokens = DelegationTokens(tokens or TokenLimits(), random_bytes)
        self.acls = AclTable()
        self.node_configs = NodeConfigs(node_id, topic_defaults)
        self.metrics_configs = MetricsConfigs()
        self._parts = (
            self.features,
            self.quotas,
            self.scram,
            self.delegation_tokens,
            self.acls,
            self.node_configs,
            self.metrics_configs,
        )

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the log; each part knows its own."""
        for part in self._parts:
            part.replay(key, value)

    def start(self, state: WideStateLog) -> None:
        """From here on changes are recorded in `state`. Called once, after replay."""
        for part in self._parts:
            part.start(state)
