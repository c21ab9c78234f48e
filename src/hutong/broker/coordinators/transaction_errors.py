"""The coordinator's errors as clients of different ages know them."""

from typing import Final

from hutong.wire.kafka.error_codes import ErrorCode

_FENCED_FROM: Final = 2  # of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn (KIP-588)


def for_client(error: ErrorCode, api_version: int) -> ErrorCode:
    """The error for a client of this version, in the requests of a transaction after InitProducerId."""
    if error is ErrorCode.PRODUCER_FENCED and api_version < _FENCED_FROM:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
