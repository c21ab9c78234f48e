"""The sender of a request to a group, and the checks of form and size that need no group. All kinds use them.

Pure. Knows the settings' bounds, and nothing of groups.
"""

from dataclasses import dataclass

from hutong.foundation.fair_shares import NOBODY
from hutong.foundation.waiting.table import Owner
from hutong.groups.settings import GroupSettings
from hutong.wire.kafka.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class GroupCaller:
    """The sender of a request: `client_host` is for administrators, `owner` ends with the connection.

    `holder` is the client whose share of the bounds the request counts against, over all its connections.
    """

    api_version: int
    client_id: str
    client_host: str
    owner: Owner
    holder: str = NOBODY


@dataclass(frozen=True, slots=True)
class Stamp:
    """The ticket and the time that turn a request into an event."""

    ticket: int
    now_ms: int


def group_id_error(group_id: str, settings: GroupSettings, *, may_be_empty: bool = False) -> ErrorCode:
    """Refuse ids that cannot be stored as a key. Like Kafka, accept an empty id where no members are needed."""
    if (not group_id and not may_be_empty) or len(group_id.encode()) > settings.name_bytes_max:
        return ErrorCode.INVALID_GROUP_ID
    return ErrorCode.NONE
