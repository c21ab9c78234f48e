"""Records in the logs of the delays, where a client that may write there may have written anything."""

import logging
from typing import Final

from hutong.foundation.errors import LimitExceeded, ProtocolError, UsageError
from hutong.wire.kafka.batch.records import Record, iterate_records

_log: Final = logging.getLogger("hutong.delays")


def stored_records(batch: memoryview) -> list[Record]:
    """The records of a batch; none where nobody can read it."""
    try:
        return [*iterate_records(batch)]
    # Maybe with a codec that is not installed here; there is nobody to answer.
    except (ProtocolError, LimitExceeded, UsageError) as error:
        _log.error("a batch among delayed records cannot be read, and is left out: %s", error)
        return []
