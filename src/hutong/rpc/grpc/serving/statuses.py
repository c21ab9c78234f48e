"""Failures over gRPC: a status code, a message, and trailers for this project's own callers.

Strategy: a table, after gRPC's own guidance (grpc.io/docs/guides/status-codes). A service's error class may choose its
status by `grpc_status = "NOT_FOUND"`. Trailers carry the rest of a failure, so that callers who know the service can
distinguish its errors.

Knows no server.
"""

from typing import Any, Final, NamedTuple

import grpc
import msgspec

from hutong.foundation.errors import UsageError
from hutong.rpc.descriptions.description import ServiceDescription
from hutong.rpc.errors import (
    DISPATCH_CODE,
    FAULT_CODE,
    NOT_AUTHENTICATED_CODE,
    NOT_AUTHORIZED_CODE,
    NOT_EXECUTED_CODE,
    OUTCOME_UNKNOWN_CODE,
    REQUEST_EXPIRED_CODE,
    REQUEST_ID_REUSED_CODE,
    RESULT_NOT_KEPT_CODE,
    Failure,
)

CODE: Final = "hutong-code"
"""Trailer: the code of the failure, as a number."""
ERROR: Final = "hutong-error"
"""Trailer: the name of the error's class, where the service declares it."""
DEBUG_INFO: Final = "hutong-debug-info-bin"
"""Trailer: debug information as JSON, where there is any."""
STATUS_ATTRIBUTE: Final = "grpc_status"
MESSAGE_CHARACTERS_MAX: Final = 1_024  # clients take some KiB of trailers, in which a character may need nine bytes
DEBUG_INFO_BYTES_MAX: Final = 4_096

_STATUSES: Final = {
    FAULT_CODE: grpc.StatusCode.UNKNOWN,  # as gRPC itself reports exceptions
    OUTCOME_UNKNOWN_CODE: grpc.StatusCode.ABORTED,  # not to be sent again as it is: its outcome is to be checked first
    REQUEST_EXPIRED_CODE: grpc.StatusCode.FAILED_PRECONDITION,
    REQUEST_ID_REUSED_CODE: grpc.StatusCode.FAILED_PRECONDITION,  # nothing happened; the call needs an id of its own
    RESULT_NOT_KEPT_CODE: grpc.StatusCode.DATA_LOSS,  # the effect happened, and its result is gone
    NOT_EXECUTED_CODE: grpc.StatusCode.UNAVAILABLE,  # nothing happened: it may be sent again
    NOT_AUTHENTICATED_CODE: grpc.StatusCode.UNAUTHENTICATED,
    NOT_AUTHORIZED_CODE: grpc.StatusCode.PERMISSION_DENIED,
    DISPATCH_CODE: grpc.StatusCode.INTERNAL,  # errors in arguments are reported before
}


class Ending(NamedTuple):
    """The status that ends a call without a result."""

    status: Any
    message: str
    trailers: tuple[tuple[str, str | bytes], ...] = ()


def ending_of(failure: Failure, service: ServiceDescription, *, is_callers: bool = False) -> Ending:
    """Return the status of a service's failure. With `is_callers` the arguments were wrong."""
    declared = service.errors.get(failure.code)
    if is_callers:
        status = grpc.StatusCode.INVALID_ARGUMENT
    elif declared is not None:
        status = status_of(declared)
    else:
        status = _STATUSES.get(failure.code, grpc.StatusCode.FAILED_PRECONDITION)
    trailers: list[tuple[str, str | bytes]] = [(CODE, str(failure.code))]
    if declared is not None and declared.__name__.isascii():
        trailers.append((ERROR, declared.__name__))
    if failure.debug_info:
        encoded = msgspec.json.encode(failure.debug_info)
        if len(encoded) <= DEBUG_INFO_BYTES_MAX:
            trailers.append((DEBUG_INFO, encoded))
    return Ending(status, shortened(failure.message), tuple(trailers))


def status_of(error: type) -> Any:
    """The status of a class of errors. Raises UsageError where it names none, or OK."""
    name = getattr(error, STATUS_ATTRIBUTE, "FAILED_PRECONDITION")
    status = grpc.StatusCode.__members__.get(name) if isinstance(name, str) else None
    if status is None or status is grpc.StatusCode.OK:
        raise UsageError(
            f'{error.__name__}.{STATUS_ATTRIBUTE} is {name!r}, which is no failure of gRPC\'s; write "NOT_FOUND", say.'
        )
    return status


def shortened(message: str) -> str:
    return message if len(message) <= MESSAGE_CHARACTERS_MAX else f"{message[: MESSAGE_CHARACTERS_MAX - 1]}…"
