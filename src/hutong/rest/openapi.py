"""The parts of the API's description (OpenAPI 3.1) that its routes do not show: bodies, queries, refusals.

Knows nothing of clients.
"""

from typing import Any, Final

import msgspec

from hutong.rest.acls import AclBody, AclsBody
from hutong.rest.records.v3_bodies import BatchBody, RecordBody
from hutong.rest.topics import ConfigChangesBody, ConfigValueBody, NewTopicBody, PartitionsBody
from hutong.rest.v2.consume import OffsetsBody, PlacesBody, SubscriptionBody
from hutong.rest.v2.instances import InstanceBody
from hutong.rest.v2.produce import RecordsV2
from hutong.web.openapi import ApiDescription

BODIES: Final[dict[str, type[msgspec.Struct]]] = {
    "POST /v3/clusters/{cluster}/topics": NewTopicBody,
    "PATCH /v3/clusters/{cluster}/topics/{topic}": PartitionsBody,
    "POST /v3/clusters/{cluster}/topics/{topic}/configs:alter": ConfigChangesBody,
    "PUT /v3/clusters/{cluster}/topics/{topic}/configs/{name}": ConfigValueBody,
    "POST /v3/clusters/{cluster}/topics/{topic}/records": RecordBody,
    "POST /v3/clusters/{cluster}/topics/{topic}/records:batch": BatchBody,
    "POST /v3/clusters/{cluster}/acls": AclBody,
    "POST /v3/clusters/{cluster}/acls:batch": AclsBody,
    "POST /topics/{topic}": RecordsV2,
    "POST /topics/{topic}/partitions/{partition}": RecordsV2,
    "POST /consumers/{group}": InstanceBody,
    "POST /consumers/{group}/instances/{instance}/subscription": SubscriptionBody,
    "POST /consumers/{group}/instances/{instance}/assignments": PlacesBody,
    "POST /consumers/{group}/instances/{instance}/positions": OffsetsBody,
    "POST /consumers/{group}/instances/{instance}/positions/beginning": PlacesBody,
    "POST /consumers/{group}/instances/{instance}/positions/end": PlacesBody,
    "POST /consumers/{group}/instances/{instance}/offsets": OffsetsBody,
    "GET /consumers/{group}/instances/{instance}/offsets": PlacesBody,
}
_OF_ACLS: Final[dict[str, dict[str, Any]]] = {
    "resource_type": {"enum": ["ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID"]},
    "resource_name": {"type": "string"},
    "pattern_type": {"enum": ["ANY", "MATCH", "LITERAL", "PREFIXED"]},
    "principal": {"type": "string"},
    "host": {"type": "string"},
    "operation": {"type": "string"},
    "permission": {"enum": ["ANY", "ALLOW", "DENY"]},
}
QUERIES: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "GET /v3/clusters/{cluster}/acls": _OF_ACLS,
    "DELETE /v3/clusters/{cluster}/acls": _OF_ACLS,
    "GET /v3/clusters/{cluster}/topics/{topic}/records": {
        "from": {"enum": ["latest", "earliest"], "default": "latest"},
        "format": {"enum": ["auto", "binary", "string", "json"], "default": "auto"},
    },
    "GET /v3/clusters/{cluster}/topics/{topic}/partitions/{partition}/records": {
        "offset": {"type": "string", "pattern": "^(earliest|latest|[0-9]+)$", "default": "earliest"},
        "max_records": {"type": "integer", "minimum": 1, "default": 100},
        "wait_ms": {"type": "integer", "minimum": 0, "default": 1000},
        "format": {"enum": ["auto", "binary", "string", "json", "schema"], "default": "auto"},
    },
    "GET /consumers/{group}/instances/{instance}/records": {
        "timeout": {"type": "integer", "minimum": 0},
        "max_bytes": {"type": "integer"},
    },
}
_REFUSAL: Final = {
    "type": "object",
    "required": ["error_code", "message"],
    "properties": {"error_code": {"type": "integer"}, "message": {"type": "string"}},
}


API: Final = ApiDescription(
    "Records, topics and groups over HTTP",
    "The v3 and v2 APIs of Confluent's REST proxy, as far as they are listed here.",
    BODIES,
    QUERIES,
    _REFUSAL,
    {"user": {"type": "http", "scheme": "basic"}},
)
