"""The settings of an embedded node: what a test gives, on a port and in a folder that are the node's own to choose.

Knows nothing of lives.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from hutong.foundation.errors import UsageError
from hutong.server.configuration import loader
from hutong.server.configuration.settings import Settings
from hutong.testing.node.ports import HOST
from hutong.testing.observe.loopback import HELPER

# What differs from a node that serves: nobody waits for more members, short sessions are allowed, a stop is quick.
DEFAULTS: Final = {
    "group.initial_rebalance_delay_ms": "0",
    "group.min_session_timeout_ms": "100",
    "node.shutdown_timeout_ms": "500",
    "node.worker_threads": "1",
}
_OWN: Final = ("kafka.listen", "kafka.listeners", "kafka.advertised", "metrics.listen", "node.data_dir")


def check_own(flags: Mapping[str, str], own: tuple[str, ...] = _OWN, whose: str = "the embedded node's") -> None:
    """Raises UsageError for a setting that a test may not choose."""
    # Refused instead of ignored: a test that names a port expects the node to be there.
    chosen = next((name for name in own if name in flags), None)
    if chosen is not None:
        raise UsageError(f"{chosen} is {whose} own to choose; leave it out.")


def embedded_settings(flags: Mapping[str, str], port: int, folder: Path) -> Settings:
    """Raises UsageError for a setting that is not known, or that a test may not choose."""
    check_own(flags)
    # Port and folder are the node's own, since they stay the same from one life to the next.
    placed = {**flags, "kafka.listen": f"{HOST}:{port}", "node.data_dir": str(folder)}
    # No environment: variables of a developer's shell must not change what a test sees.
    settings = loader.load(environment={}, flags=placed, flag_source="argument").settings
    # Helpers create topics and read records also where the test's settings allow nobody to.
    super_users = (*settings.security.super_users, str(HELPER))
    return replace(settings, security=replace(settings.security, super_users=super_users))
