"""FindCoordinator (key 10), versions 0 to 6, flexible from 3.

Version 1 adds the kind of key, 4 asks for many keys at once (KIP-699) and moves the answer into a list. Version 5 knows
TRANSACTION_ABORTABLE (KIP-890), 6 the share coordinator (KIP-932).
"""

from hutong.wire.kafka.schema import STRING, array, int8, int16, int32, message, string, struct


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    key: str = string("0-3")
    key_type: int = int8("1+")  # 0: group; 1: transaction; 2: share group
    coordinator_keys: list[str] = array(STRING, "4+")


@struct
class Coordinator:
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3")
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")
