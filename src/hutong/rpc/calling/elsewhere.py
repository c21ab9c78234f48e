"""Calls begun on another loop than the transport's: they are carried there, and their outcomes back.

Knows no transport.
"""

from asyncio import AbstractEventLoop
from collections.abc import Callable

from hutong.foundation.errors import HutongError, UsageError
from hutong.rpc.call import Outcome
from hutong.rpc.calling.transport import Abandon, Ended


def begin_elsewhere(
    home: AbstractEventLoop, running: AbstractEventLoop, begin: Callable[[Ended], Abandon], done: Ended
) -> Abandon:
    """Call `begin` soon on the loop `home`; `done` gets the outcome, or what it raised, on the loop `running`."""
    begun: list[Abandon] = []

    def begin_there() -> None:
        try:
            # The outcome goes back to the caller's loop; its future is not thread-safe.
            begun.append(begin(lambda ended: _call_soon(running, done, ended)))
        # `begin_elsewhere` has returned already: what would be raised to its caller is the outcome instead.
        except HutongError as error:
            _call_soon(running, done, error)
        except (TypeError, ValueError) as error:
            _call_soon(running, done, UsageError(str(error)))

    def abandon() -> None:
        # Behind `begin_there`, which was called first: there is something to abandon by then.
        home.call_soon_threadsafe(lambda: [each() for each in begun])

    home.call_soon_threadsafe(begin_there)
    return abandon


def _call_soon(loop: AbstractEventLoop, done: Ended, outcome: Outcome | HutongError) -> None:
    # The caller's loop may be gone, and with it everybody who awaits the outcome.
    if not loop.is_closed():
        loop.call_soon_threadsafe(done, outcome)
