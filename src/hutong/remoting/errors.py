"""Errors of invocations that get no answer.

    HutongError
    └── RemotingError
        ├── RemotingConnectFailed   there is no connection, and none could be made (or it is too soon to try again)
        ├── RemotingSendFailed      the connection ended before the answer came: whether it was executed is unknown
        ├── RemotingTimeout         no answer in time; the same is unknown
        ├── TooManyRequests         a bound of this side refused; nothing was sent
        └── AbortProcess            a hook of this side refused, with a code; nothing was sent

What the other side answers is no error here: a `Command` with its code, of which `remoting.answers` names some.
"""

from hutong.foundation.errors import Expired, HutongError, LimitExceeded, OwnerGone


class RemotingError(HutongError):
    """Root of what goes wrong between two sides."""


class RemotingConnectFailed(RemotingError):
    """No connection: nobody listens, TLS failed, no time was left, or the last attempt failed a moment ago."""


class RemotingSendFailed(RemotingError, OwnerGone):
    """The connection ended while the answer was awaited."""


class RemotingTimeout(RemotingError, Expired):
    """No answer came in time."""


class TooManyRequests(RemotingError, LimitExceeded):
    """A bound of ours: too many invocations wait on this connection, or too many bytes are unsent on it."""


class AbortProcess(RemotingError):
    """Raised by a hook that refuses a request: at the server it is answered with `code`, at the client raised."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
