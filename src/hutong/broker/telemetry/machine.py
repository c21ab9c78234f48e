"""Decides about clients' requests for subscriptions and their pushes of metrics (KIP-714): refuse, or take.

Strategy: of each client instance the subscription that it was given, and when it last came. A client may push once
after each question, and then once in each interval; the last push before it ends comes at any time, once. Clients that
come too often get THROTTLING_QUOTA_EXCEEDED. An instance that is not known, since it was forgotten or asked another
node, gets its subscription computed anew, which has the same id for as long as the settings stay.

Knows nothing of what is measured, or where it goes. Time arrives with each call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hutong.broker.telemetry.subscription import MetricSubscription
from hutong.foundation.errors import Refused
from hutong.wire.kafka.error_codes import ErrorCode

INSTANCES_MAX: Final = 16_384
"""As Kafka has it. The one that has been silent for longest is forgotten."""
COMPRESSION_TYPES: Final = (4, 3, 1, 2)  # zstd, lz4, gzip, snappy: those that are accepted, the best first
NO_COMPRESSION: Final = 0
RESERVED_IDS: Final = (bytes(16), bytes(15) + b"\1")  # Kafka's Uuid.RESERVED
_RETRIED: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


FindSubscription = Callable[[bytes], MetricSubscription]
"""Computes a client's subscription by its instance's id."""


@dataclass(slots=True)
class ClientInstance:
    """One client. Invariant: a push is taken only with the id of `subscription`."""

    subscription: MetricSubscription
    id: int
    version: int  # of the settings when that was computed
    asked_at_ms: int | None = None
    pushed_at_ms: int | None = None
    is_terminating: bool = False
    last_error: int = ErrorCode.NONE


class ClientInstances:
    """Those that came to this node. `find` computes a client's subscription, `version` is that of the settings."""

    def __init__(self, bytes_max: int, make_id: Callable[[], bytes]) -> None:
        self._bytes_max = bytes_max
        self._make_id = make_id
        self._instances: OrderedDict[bytes, ClientInstance] = OrderedDict()  # came last comes last

    def __len__(self) -> int:
        return len(self._instances)

    def ask(
        self, instance_id: bytes, version: int, find: FindSubscription, now_ms: int
    ) -> tuple[bytes, ClientInstance]:
        """Give a client its subscription, and its id if it has none. Raises Refused."""
        # A client that asks for the first time has the id zero (KIP-714).
        if instance_id == RESERVED_IDS[0]:
            instance_id = self._make_id()
        elif instance_id in RESERVED_IDS:
            raise Refused(ErrorCode.INVALID_REQUEST, "An id of a client instance that is reserved.")
        instance = self._instance(instance_id, version, find)
        came = [at_ms for at_ms in (instance.asked_at_ms, instance.pushed_at_ms) if at_ms is not None]
        is_early = bool(came) and now_ms - max(came) < instance.subscription.interval_ms
        # After these the client has to ask at once.
        if is_early and instance.last_error not in _RETRIED:
            raise self._refused(instance, ErrorCode.THROTTLING_QUOTA_EXCEEDED, "A question before its time.")
        instance.asked_at_ms, instance.last_error = now_ms, ErrorCode.NONE
        return instance_id, instance

    def push(
        self,
        instance_id: bytes,
        subscription_id: int,
        *,
        is_last: bool,
        compression: int,
        size: int,
        version: int,
        find: FindSubscription,
        now_ms: int,
    ) -> None:
        """Take a client's metrics. Raises Refused."""
        if instance_id in RESERVED_IDS:
            raise Refused(ErrorCode.INVALID_REQUEST, "A push without the id of a client instance.")
        instance = self._instance(instance_id, version, find)
        if instance.is_terminating:
            raise self._refused(instance, ErrorCode.INVALID_REQUEST, "A push after the last one.")
        if not is_last and not self._is_due(instance, now_ms):
            raise self._refused(instance, ErrorCode.THROTTLING_QUOTA_EXCEEDED, "A push before its time.")
        # The settings have changed meanwhile, or the client has an id of long ago.
        if subscription_id != instance.id:
            raise self._refused(instance, ErrorCode.UNKNOWN_SUBSCRIPTION_ID, "A subscription that is not the client's.")
        if compression not in (NO_COMPRESSION, *COMPRESSION_TYPES):
            raise self._refused(instance, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "A compression that is not accepted.")
        if size > self._bytes_max:
            raise self._refused(instance, ErrorCode.TELEMETRY_TOO_LARGE, f"More than {self._bytes_max} bytes.")
        instance.pushed_at_ms, instance.is_terminating = now_ms, is_last
        instance.last_error = ErrorCode.NONE

    def check_invariants(self) -> None:
        assert len(self._instances) <= INSTANCES_MAX

    def _instance(self, instance_id: bytes, version: int, find: FindSubscription) -> ClientInstance:
        instance = self._instances.get(instance_id)
        if instance is None or instance.version != version:
            subscription = find(instance_id)
            fresh = ClientInstance(subscription, subscription.id_for(instance_id), version)
            # What it has done still counts, so a change of the settings lets nobody come more often.
            if instance is not None:
                instance.subscription, instance.id, instance.version = fresh.subscription, fresh.id, version
            else:
                instance = self._instances[instance_id] = fresh
        self._instances.move_to_end(instance_id)
        if len(self._instances) > INSTANCES_MAX:
            self._instances.popitem(last=False)
        return instance

    @staticmethod
    def _is_due(instance: ClientInstance, now_ms: int) -> bool:
        pushed_at_ms, asked_at_ms = instance.pushed_at_ms, instance.asked_at_ms
        # The first push after a question comes at any time: clients spread theirs (KIP-714).
        if pushed_at_ms is None or (asked_at_ms is not None and asked_at_ms > pushed_at_ms):
            return True
        return now_ms - pushed_at_ms >= instance.subscription.interval_ms

    @staticmethod
    def _refused(instance: ClientInstance, code: ErrorCode, sentence: str) -> Refused:
        instance.last_error = code
        return Refused(code, sentence)
