"""A client's properties, as the patterns of subscriptions and the labels of its metrics name them (KIP-714).

Knows nothing of what is done with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from hutong.broker.handling.context import RequestContext


def properties_of(context: RequestContext[object], instance_id: bytes) -> dict[str, str]:
    """By Kafka's names for them."""
    session = context.session
    name, version = session.software
    return {
        "client_instance_id": str(UUID(bytes=instance_id)),
        "client_id": context.client_id or "",
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": session.address,
        "client_source_port": str(session.port),
    }
