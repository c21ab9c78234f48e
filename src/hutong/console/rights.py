"""Rights that the brokers do not check for us: at the bus, the services and the settings of the node itself.

Strategy: a user that may alter the cluster by Kafka's ACLs may use the bus from the console. One that may describe its
configuration may read the node's. A broker without authorization lets everybody do both.

Decides nothing about records, topics and groups: the brokers do.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import AclOperation

from hutong.rest.limits import CALL_S_MAX
from hutong.web.answers import WebRefusal

if TYPE_CHECKING:
    from hutong.console.desk import ConsoleDesk
    from hutong.web.requests import WebRequest

USE_BUS = AclOperation.ALTER
READ_NODE = AclOperation.DESCRIBE_CONFIGS
SEE_GROUPS = AclOperation.DESCRIBE
"""To see all groups, as Kafka's ListGroups has it."""
FORBIDDEN = 40301
NOT_TOLD = (
    f"The brokers have not said within {CALL_S_MAX:g} s what your user may do, so what needs a right is missing. "
    "One of them may hang, often the controller: `hutong cluster status` shows which. "
    "Look at its log, start it again if it stays silent, then try again here."
)


async def has_right(desk: ConsoleDesk, request: WebRequest, operation: Any) -> bool:
    """True for a user with this operation on the cluster. Raises WebRefusal(503) where the brokers do not tell."""
    account = await desk.account(request)
    describe = partial(account.admin.describe_cluster, include_authorized_operations=True, request_timeout=CALL_S_MAX)
    try:
        found: Any = await desk.blocking(lambda: describe().result(CALL_S_MAX))
    except WebRefusal as refusal:
        # "The brokers have not answered in time" leaves a user alone with a page that has nothing.
        raise (refusal if refusal.status != 503 else WebRefusal(503, NOT_TOLD, refusal.code)) from None
    # Brokers name none to a user that may not describe the cluster (KIP-430), and all where nothing is authorized.
    return operation in (found.authorized_operations or ())


async def check_right(desk: ConsoleDesk, request: WebRequest, operation: Any) -> None:
    """Raises WebRefusal(403) for a user without this operation on the cluster."""
    if not await has_right(desk, request, operation):
        raise WebRefusal(403, f"This needs {operation.name} on the cluster, which your user does not have.", FORBIDDEN)
