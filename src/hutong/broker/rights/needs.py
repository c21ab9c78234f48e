"""What each API asks the ACLs for: the one table that the page docs/security.md shows and that tests hold handlers to.

Strategy: of each API the needs, all of which must be met; each need is met by any of its rights. Some concern a part of
a request alone (a topic, a transactional id), and then that part is refused. An API that stands neither here nor among
the open ones fails the tests.

Knows nothing of requests; handlers ask by themselves, since only they know what is meant by which field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hutong.security.acls import Operation, ResourceType

Right = tuple[Operation, ResourceType]
Need = tuple[Right, ...]

_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
_TRANSACTION = ResourceType.TRANSACTIONAL_ID


def _of(kind: ResourceType, *operations: str) -> Need:
    return tuple((Operation[operation], kind) for operation in operations)


NEEDS: Final[Mapping[int, tuple[Need, ...]]] = {
    0: (_of(_TOPIC, "WRITE"), _of(_TRANSACTION, "WRITE")),
    1: (_of(_TOPIC, "READ"), _of(_CLUSTER, "CLUSTER_ACTION")),
    2: (_of(_TOPIC, "DESCRIBE"),),
    3: (_of(_TOPIC, "DESCRIBE"), _of(_CLUSTER, "CREATE") + _of(_TOPIC, "CREATE")),
    8: (_of(_GROUP, "READ"), _of(_TOPIC, "READ")),
    9: (_of(_GROUP, "DESCRIBE"), _of(_TOPIC, "DESCRIBE")),
    10: (_of(_GROUP, "DESCRIBE"), _of(_TRANSACTION, "DESCRIBE")),
    11: (_of(_GROUP, "READ"),),
    12: (_of(_GROUP, "READ"),),
    13: (_of(_GROUP, "READ"),),
    14: (_of(_GROUP, "READ"),),
    15: (_of(_GROUP, "DESCRIBE"),),
    16: (_of(_CLUSTER, "DESCRIBE") + _of(_GROUP, "DESCRIBE"),),
    19: (_of(_CLUSTER, "CREATE") + _of(_TOPIC, "CREATE"), _of(_TOPIC, "DESCRIBE_CONFIGS")),
    20: (_of(_CLUSTER, "DELETE") + _of(_TOPIC, "DELETE"),),
    21: (_of(_TOPIC, "DELETE"),),
    22: (_of(_TRANSACTION, "WRITE"), _of(_CLUSTER, "IDEMPOTENT_WRITE") + _of(_TOPIC, "WRITE")),
    23: (_of(_CLUSTER, "CLUSTER_ACTION") + _of(_TOPIC, "DESCRIBE"),),
    24: (_of(_TRANSACTION, "WRITE"), _of(_TOPIC, "WRITE"), _of(_CLUSTER, "CLUSTER_ACTION")),
    25: (_of(_TRANSACTION, "WRITE"), _of(_GROUP, "READ")),
    26: (_of(_TRANSACTION, "WRITE"),),
    27: (_of(_CLUSTER, "ALTER", "CLUSTER_ACTION"),),
    28: (_of(_TRANSACTION, "WRITE"), _of(_GROUP, "READ"), _of(_TOPIC, "READ")),
    29: (_of(_CLUSTER, "DESCRIBE"),),
    30: (_of(_CLUSTER, "ALTER"),),
    31: (_of(_CLUSTER, "ALTER"),),
    32: (_of(_TOPIC, "DESCRIBE_CONFIGS"), _of(_GROUP, "DESCRIBE_CONFIGS"), _of(_CLUSTER, "DESCRIBE_CONFIGS")),
    33: (_of(_TOPIC, "ALTER_CONFIGS"), _of(_GROUP, "ALTER_CONFIGS"), _of(_CLUSTER, "ALTER_CONFIGS")),
    34: (_of(_CLUSTER, "ALTER"),),
    35: (_of(_CLUSTER, "DESCRIBE"),),
    37: (_of(_TOPIC, "ALTER"),),
    42: (_of(_GROUP, "DELETE"),),
    43: (_of(_CLUSTER, "ALTER"),),
    44: (_of(_TOPIC, "ALTER_CONFIGS"), _of(_GROUP, "ALTER_CONFIGS"), _of(_CLUSTER, "ALTER_CONFIGS")),
    45: (_of(_CLUSTER, "ALTER"),),
    46: (_of(_CLUSTER, "DESCRIBE"),),
    47: (_of(_GROUP, "DELETE"), _of(_TOPIC, "READ")),
    48: (_of(_CLUSTER, "DESCRIBE_CONFIGS"),),
    49: (_of(_CLUSTER, "ALTER_CONFIGS"),),
    50: (_of(_CLUSTER, "DESCRIBE"),),
    51: (_of(_CLUSTER, "ALTER"),),
    55: (_of(_CLUSTER, "DESCRIBE"),),
    57: (_of(_CLUSTER, "ALTER"),),
    61: (_of(_TOPIC, "READ"),),
    64: (_of(_CLUSTER, "ALTER"),),
    65: (_of(_TRANSACTION, "DESCRIBE"),),
    66: (_of(_TRANSACTION, "DESCRIBE"),),
    68: (_of(_GROUP, "READ"), _of(_TOPIC, "DESCRIBE")),
    69: (_of(_GROUP, "DESCRIBE"), _of(_TOPIC, "DESCRIBE")),
    74: (_of(_CLUSTER, "DESCRIBE_CONFIGS"),),
    75: (_of(_TOPIC, "DESCRIBE"),),
    76: (_of(_GROUP, "READ"), _of(_TOPIC, "DESCRIBE")),
    77: (_of(_GROUP, "DESCRIBE"), _of(_TOPIC, "DESCRIBE")),
    78: (_of(_GROUP, "READ"), _of(_TOPIC, "READ")),
    79: (_of(_GROUP, "READ"), _of(_TOPIC, "READ")),
    80: (_of(_CLUSTER, "ALTER"),),
    81: (_of(_CLUSTER, "ALTER"),),
    90: (_of(_GROUP, "DESCRIBE"), _of(_TOPIC, "DESCRIBE")),
    91: (_of(_GROUP, "READ"), _of(_TOPIC, "READ")),
    92: (_of(_GROUP, "DELETE"), _of(_TOPIC, "READ")),
}

OPEN: Final[Mapping[int, str]] = {
    17: "says how to authenticate",
    18: "says which APIs there are",
    36: "authenticates",
    38: "is refused to everybody: there are no delegation tokens",
    39: "is refused to everybody: there are no delegation tokens",
    40: "is refused to everybody: there are no delegation tokens",
    41: "is refused to everybody: there are no delegation tokens",
    60: "says where the cluster is; what may be done with it is told to who may `DESCRIBE` it",
}
"""APIs that ask for nothing, and why."""
