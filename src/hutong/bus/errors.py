"""Errors of the bus, by type.

    HutongError
    ├── ReplyError          the failure of a request, as its sender sees it; subclasses travel with a codec of their own
    │   └── HandlerRaised   the recipient's handler raised, instead of failing the request in words of its own
    └── BusClosed           the bus has been closed

The numbers of the failure types are those of Vert.x, since bridges carry them. Wrong arguments are TypeError and
ValueError, raised by the call that has them; a named bound is LimitExceeded.
"""

from enum import Enum
from typing import Final

from hutong.foundation.errors import HutongError

BUILT_IN_CODE: Final = -1
"""The failure code of every failure that the bus itself reports."""
HANDLER_RAISED: Final = "the handler raised an error"
"""The text for others than this process, where a handler raised."""


class FailureType(Enum):
    """The reasons for a request without a reply."""

    TIMEOUT = 0  # nobody replied in time, or the message was discarded before anybody saw it
    NO_HANDLERS = 1  # no consumer is registered at the address
    RECIPIENT_FAILURE = 2  # the recipient failed it, or raised
    ERROR = 3  # the message or its reply could not be carried


class ReplyError(HutongError):
    """A request failed. `failure_code` is the recipient's own; failures of the bus itself have BUILT_IN_CODE."""

    def __init__(self, failure_type: FailureType, failure_code: int = BUILT_IN_CODE, message: str = "") -> None:
        super().__init__(message or failure_type.name.lower().replace("_", " "))
        self.failure_type = failure_type
        self.failure_code = failure_code
        self.message = message

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.failure_type.name}, {self.failure_code}, {self.message!r})"


class HandlerRaised(ReplyError):
    """RECIPIENT_FAILURE, because the handler raised. Its message names the exception, so it is for this process alone.

    Clients of bridges only learn that it happened: the text of an exception was not written for them.
    """

    def __init__(self, error: BaseException) -> None:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        super().__init__(FailureType.RECIPIENT_FAILURE, BUILT_IN_CODE, text)


def carrying_failed(what: str, error: BaseException) -> ReplyError:
    """ERROR, since a codec or an interceptor raised. A stranger may read it, so it has no text of a stranger's code."""
    reason = (
        str(error) if isinstance(error, HutongError | TypeError | ValueError) else f"{type(error).__name__} was raised"
    )
    return ReplyError(FailureType.ERROR, BUILT_IN_CODE, f"{what} cannot be carried: {reason}")


class BusClosed(HutongError):
    """The event bus has been closed: nothing can be sent or registered any more."""
