"""Errors of calls without a result, by type.

    HutongError
    └── CallFailed               the caller has no result
        ├── ServiceError         the service's answer: a code and a message, with debug information if enabled
        │   ├── ServiceFault     -1: the implementation raised something that is not a ServiceError
        │   ├── DispatchFailed   500: no such action, wrong arguments, a result that cannot be sent
        │   ├── NotAuthenticated 401: an interceptor does not know the caller
        │   └── NotAuthorized    403: an interceptor knows the caller and refuses it
        ├── OutcomeUnknown       the effect may or may not have happened; it will not happen (again) by this call
        ├── RequestExpired       refused, and never executed: the request id is older than what the service remembers
        ├── RequestIdReused      refused, and never executed: the request id belongs to a call with other content
        ├── ResultNotKept        the effect happened, once, by an earlier attempt; its result was too large to be kept
        ├── NotExecuted          nothing happened: the service could not remember the call; it may be tried again
        ├── CallTimeout          no answer came in time; the effect may or may not have happened
        ├── NoService            no service is bound at the address; nothing happened
        │   ├── NotConnected     no connection can be made; nothing happened
        │   └── ReferenceGone    the object behind a reference is released; nothing happened
        ├── Overloaded           refused by a bound that is named, of this side or the other; nothing happened
        ├── ConnectionLost       the connection ended before the answer; the effect may or may not have happened
        └── BadReply             an answer that does not match the signature

An application's own errors are subclasses of ServiceError with their own `code`: raised in the implementation, they are
raised again as that class at the caller. On the bus a code travels as the failure code of a RECIPIENT_FAILURE, as
Vert.x's service proxies have it.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from msgspec import Struct

from hutong.foundation.errors import HutongError

FAULT_CODE: Final = -1
OUTCOME_UNKNOWN_CODE: Final = -2
REQUEST_EXPIRED_CODE: Final = -3
RESULT_NOT_KEPT_CODE: Final = -4
NOT_EXECUTED_CODE: Final = -5
REQUEST_ID_REUSED_CODE: Final = -6
NOT_AUTHENTICATED_CODE: Final = 401
NOT_AUTHORIZED_CODE: Final = 403
DISPATCH_CODE: Final = 500
RESERVED_CODES: Final = range(-99, -1)
"""Not for the errors of applications."""
CODE_MIN: Final = -(1 << 31)
CODE_MAX: Final = (1 << 31) - 1  # it travels in 32 bits

DebugInfo = dict[str, Any]


class Failure(Struct, frozen=True, gc=False):
    """A failure as it travels. `debug_info` is what JSON can say."""

    code: int
    message: str = ""
    debug_info: DebugInfo | None = None


class CallFailed(HutongError):
    """A call has no result. `message` is the text without the class's name."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or type(self).__name__)
        self.message = message


class ServiceError(CallFailed):
    """The service failed the call. Subclasses have a `code` of their own; without one, give it here.

    `debug_info` is a dict of what JSON can say. Raises ValueError for a code of more than 32 bits.
    """

    code: int = FAULT_CODE

    def __init__(self, message: str = "", *, code: int | None = None, debug_info: DebugInfo | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        if type(self.code) is not int or not CODE_MIN <= self.code <= CODE_MAX:
            raise ValueError(f"the code of a {type(self).__name__} is a whole number of 32 bits, not {self.code!r}")
        self.debug_info = debug_info

    @classmethod
    def from_failure(cls, failure: Failure) -> "ServiceError":
        """Make the error as its caller sees it, without calling the class's own `__init__`."""
        error = cls.__new__(cls)
        ServiceError.__init__(error, failure.message, code=failure.code, debug_info=failure.debug_info)
        return error

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.code}, {self.message!r})"


class ServiceFault(ServiceError):
    """The implementation raised something else than a ServiceError."""

    code = FAULT_CODE


class DispatchFailed(ServiceError):
    """The call did not reach the implementation, or its result could not be sent: the message has the reason."""

    code = DISPATCH_CODE


class NotAuthenticated(ServiceError):
    """For interceptors: the caller is not identified."""

    code = NOT_AUTHENTICATED_CODE


class NotAuthorized(ServiceError):
    """For interceptors: the caller has not the right to this call."""

    code = NOT_AUTHORIZED_CODE


class BadArguments(DispatchFailed):
    """Arguments are missing, too many, or of the wrong type. The message names the parameter."""


class OutcomeUnknown(CallFailed):
    """The effect may or may not have happened; this request will not execute it again."""

    code: ClassVar[int] = OUTCOME_UNKNOWN_CODE


class RequestExpired(CallFailed):
    """Never executed: the request id is older than what the service remembers of its callers."""

    code: ClassVar[int] = REQUEST_EXPIRED_CODE


class RequestIdReused(CallFailed):
    """Never executed: the request id belongs to an earlier call with another action or other arguments."""

    code: ClassVar[int] = REQUEST_ID_REUSED_CODE


class ResultNotKept(CallFailed):
    """The effect happened, once, and its result was not one that the service could keep: it is gone."""

    code: ClassVar[int] = RESULT_NOT_KEPT_CODE


class NotExecuted(CallFailed):
    """Nothing happened, since the service could not remember it: its memory is full or cannot be stored.

    The same request may be tried again.
    """

    code: ClassVar[int] = NOT_EXECUTED_CODE


class CallTimeout(CallFailed):
    """No answer came in time. The effect may or may not have happened."""


class NoService(CallFailed):
    """No service is bound at the address. Nothing happened."""


class NotConnected(NoService):
    """There is no connection to where the service is. Nothing happened."""


class ReferenceGone(NoService):
    """The object behind a reference is no more: released, idle for too long, or its connection has ended.

    Nothing happened.
    """


class Overloaded(CallFailed):
    """A bound refused the call before it started: the message names the bound. Nothing happened."""


class ConnectionLost(CallFailed):
    """The connection ended before the answer. The effect may or may not have happened."""


class BadReply(CallFailed):
    """An answer came that is not what the signature promises."""


_BUILT_IN: Final[dict[int, type[ServiceError]]] = {
    error.code: error for error in (ServiceFault, DispatchFailed, NotAuthenticated, NotAuthorized)
}
_OF_DELIVERY: Final[dict[int, type[CallFailed]]] = {
    error.code: error for error in (OutcomeUnknown, RequestExpired, RequestIdReused, ResultNotKept, NotExecuted)
}


def failure_of(error: Exception) -> Failure:
    """Convert an exception of an implementation or an interceptor to a failure."""
    if isinstance(error, ServiceError):
        return Failure(error.code, error.message, error.debug_info)
    if isinstance(error, OutcomeUnknown | RequestExpired | RequestIdReused | ResultNotKept | NotExecuted):
        return Failure(error.code, error.message)
    return Failure(FAULT_CODE, str(error) or type(error).__name__)


def error_of(failure: Failure, declared: Mapping[int, type[ServiceError]]) -> CallFailed:
    """Return the caller's exception: the declared class of the code, else one of ours, else a plain ServiceError."""
    if failure.code in _OF_DELIVERY:
        return _OF_DELIVERY[failure.code](failure.message)
    kind = declared.get(failure.code) or _BUILT_IN.get(failure.code) or ServiceError
    return kind.from_failure(failure)
