"""The parts of the console's description (OpenAPI 3.1) that its routes do not show: bodies and refusals.

Knows nothing of clients.
"""

from typing import Final

import msgspec

from hutong.console.bus.bus_pages import BusMessageBody
from hutong.console.dead_letters.redrive_pages import RedriveBody
from hutong.console.groups.pages import LagsBody
from hutong.console.groups.resets.pages import PreviewBody, ResetBody, UndoBody
from hutong.console.guard import COOKIE
from hutong.console.nodes.moving.drains import DrainBody
from hutong.console.nodes.moving.pages import MoveBody, TakeBackBody
from hutong.console.nodes.pages import ElectBody
from hutong.console.records.changing.bodies import CopyBody, ProduceBody, ResendBody
from hutong.console.schemas.changes import LevelBody, SchemaBody
from hutong.console.security.acls import AclWords
from hutong.console.security.users import NewPassword
from hutong.console.services.service_pages import ServiceCallBody
from hutong.console.signing_in import SignInBody
from hutong.console.topics.changes import WantedPartitions, WantedSettings, WantedTopic
from hutong.web.openapi import ApiDescription

BODIES: Final[dict[str, type[msgspec.Struct]]] = {
    "POST /api/session": SignInBody,
    "POST /api/topics": WantedTopic,
    "PATCH /api/topics/{topic}/settings": WantedSettings,
    "POST /api/topics/{topic}/partitions": WantedPartitions,
    "POST /api/topics/{topic}/messages": ProduceBody,
    "POST /api/topics/{topic}/messages/{partition}/{offset}/resend": ResendBody,
    "POST /api/topics/{topic}/messages/copy": CopyBody,
    "POST /api/topics/{topic}/messages/copy/preview": CopyBody,
    "POST /api/groups/lags": LagsBody,
    "POST /api/groups/{group}/resets": ResetBody,
    "POST /api/groups/{group}/resets/preview": PreviewBody,
    "POST /api/groups/{group}/resets/{number}/undo": UndoBody,
    "POST /api/dead-letters/{topic}/redrives": RedriveBody,
    "POST /api/dead-letters/{topic}/redrives/dry-run": RedriveBody,
    "POST /api/schemas/{subject}/versions": SchemaBody,
    "POST /api/schemas/{subject}/versions/preview": SchemaBody,
    "PUT /api/schemas/{subject}/level": LevelBody,
    "POST /api/bus/messages": BusMessageBody,
    "POST /api/services/{address}/methods/{method}": ServiceCallBody,
    "POST /api/nodes/elect": ElectBody,
    "POST /api/nodes/moves": MoveBody,
    "POST /api/nodes/moves/preview": MoveBody,
    "POST /api/nodes/moves/take-back": TakeBackBody,
    "POST /api/nodes/{broker}/drain": DrainBody,
    "POST /api/nodes/{broker}/drain/preview": DrainBody,
    "POST /api/security/users": NewPassword,
    "POST /api/security/acls": AclWords,
    "POST /api/security/acls/deletion": AclWords,
}
API: Final = ApiDescription(
    "The console",
    "What the console's pages ask for. A session is a cookie; each request that is no GET has its second token, too.",
    BODIES,
    {},
    {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["code", "message"],
                "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
            }
        },
    },
    {"session": {"type": "apiKey", "in": "cookie", "name": COOKIE}},
)
