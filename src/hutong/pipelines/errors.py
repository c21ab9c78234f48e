"""Errors between a pipeline and its brokers, beyond those of the foundation.

    PeerError
    ├── Unavailable   no broker answers, or one went away; worth another try
    ├── AccessDenied  refused by the broker, or the broker is not trusted; retries do not help
    ├── DataLost      records that a query expected no longer exist
    ├── TakenOver     another driver runs the same query: this one must end
    ├── Outdated      a version older than one that was written: its fate is unknown
    ├── HalfDone      a commit that cannot be finished by this attempt
    └── BadRecord     a record in another format than the job reads

A refusal by a broker is the foundation's `Refused` with Kafka's error code. Exceptions of Spark's workers reach the
user as text of a Java exception, so every message is a complete sentence.
"""

from hutong.foundation.errors import PeerError, Refused
from hutong.wire.kafka.error_codes import ErrorCode

RETRIABLE = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_CONTROLLER,
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
    """A refusal of certificates or passwords. Final: a retry would be refused too."""


class DataLost(PeerError):
    """Offsets that were to be read are gone: aged out, or their topic was deleted."""


class TakenOver(PeerError):
    """Another driver commits for the same query now."""


class Outdated(PeerError):
    """An application's version that comes after a later one. Final: what was written once is not looked up."""


class HalfDone(PeerError):
    """Transactions that should be committed are no longer open. The message says what to do about it."""


class BadRecord(PeerError):
    """A record that is not of the form the job asks for. The message names topic, partition and offset."""


def is_retriable(error: Unavailable | Refused) -> bool:
    """Return True if the same request may succeed later."""
    return isinstance(error, Unavailable) or error.code in RETRIABLE
