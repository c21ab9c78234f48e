"""What can go wrong between a pipeline and its brokers, beyond the errors of the foundation.

    PeerError
    ├── Unavailable   no broker answers, or one went away; worth another try
    ├── AccessDenied  we are not let in, or do not trust the broker; waiting does not help
    ├── DataLost      records that a query was promised are no longer there
    ├── TakenOver     another driver runs the same query: this one must end
    ├── Outdated      a version older than one that was written: nobody knows whether it was
    ├── HalfDone      a commit that cannot be finished by this attempt
    └── BadRecord     a record that is not what the job reads

A refusal by a broker is the foundation's `Refused` with Kafka's error code. Exceptions of Spark's workers reach the
user as text of a Java exception, so every message here is a whole sentence that stands alone.
"""

from hutong.foundation.errors import PeerError, Refused
from hutong.wire.kafka.error_codes import ErrorCode

RETRIABLE = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""Refusals that a new look at the cluster or a moment's wait may cure."""


class Unavailable(PeerError):
    """No broker answers, or the one asked went away."""


class AccessDenied(PeerError):
    """Certificates or passwords stand between us and a broker. Final: the same would be said again."""


class DataLost(PeerError):
    """Offsets that were to be read are gone: aged out, or their topic was deleted."""


class TakenOver(PeerError):
    """Another driver has begun to commit for the same query."""


class Outdated(PeerError):
    """An application's version that comes after a later one. Final: what was written once is not looked up."""


class HalfDone(PeerError):
    """Transactions that should be committed are no longer open. What to do about it stands in the message."""


class BadRecord(PeerError):
    """A record that is not of the form the job asks for. The message names topic, partition and offset."""


def is_retriable(error: Unavailable | Refused) -> bool:
    """Whether the same request may succeed later."""
    return isinstance(error, Unavailable) or error.code in RETRIABLE
