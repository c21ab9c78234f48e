"""Running an implementation's coroutine: by hand as long as it does not wait, as a task from its first wait on.

Strategy: most calls never wait, and a task costs as much as everything else about them. So the first step is taken by
hand, in a copy of the context variables, while a spare task counts as the current one: `asyncio.timeout` and the like
find a task, and it is the right one. A coroutine that waits is handed to that task, which carries it to its end. Where
there is no spare (the first call, several calls that wait in one loop iteration) the whole is done by a task.

Tasks belong to the context, which cancels them when it is closed. Knows no calls.
"""

import asyncio
from asyncio.tasks import _enter_task, _leave_task, current_task
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context as Variables
from types import coroutine as generator_coroutine
from typing import Any, Final

from hutong.runtime.contexts.contexts import Context, ContextKind

Then = Callable[[Any, BaseException | None], None]
"""Called with the value, or else the error."""
_BEGIN: Final[Any] = object()  # in the place of a coroutine's future: it has not started
_Handed = tuple[Coroutine[Any, Any, Any], Any, Variables, Then]


class Stepper:
    """Runs coroutines in one context. `run` is called in that context."""

    __slots__ = ("_context", "_is_closed", "_is_making", "_is_steppable", "_loop", "_spare")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._loop = context.loop
        self._is_steppable = context.kind is ContextKind.EVENT_LOOP
        self._spare: _Carrier | None = None
        self._is_making = False
        self._is_closed = False

    def run(self, coroutine: Coroutine[Any, Any, Any], variables: Variables, then: Then) -> None:
        """Run it to its end, in `variables`. `then` is called at once, if it does not wait."""
        spare = self._spare
        # Inside of a task no other can be entered: the whole coroutine gets a task of its own.
        if spare is None or current_task(self._loop) is not None:
            self._context.run(_drive, (coroutine, _BEGIN, variables, then))
            if self._is_steppable and spare is None and not self._is_making and not self._is_closed:
                self._is_making = True
                self._context.run(self._make_spare, None)
            return
        # `current_task` and time-outs of the coroutine's first step need a task, and get the one that would carry it
        # on.
        _enter_task(self._loop, spare.task)
        try:
            waits_for = variables.run(coroutine.send, None)
        except StopIteration as stop:
            value, error = stop.value, None
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as raised:  # noqa: BLE001  # a supervisor: implementations are other people's code
            value, error = None, raised
        else:
            self._spare = None
            handed = (coroutine, waits_for, variables, then)
            # The spare was cancelled meanwhile: a new task carries the coroutine.
            if not spare.take(handed):
                self._context.run(_drive, handed)
            return
        finally:
            _leave_task(self._loop, spare.task)
        then(value, error)

    def close(self) -> None:
        """Keep no spare any more. Running steps continue."""
        self._is_closed = True
        spare, self._spare = self._spare, None
        if spare is not None:
            spare.retire()

    async def _make_spare(self, _: None) -> None:
        carrier = _Carrier(self._loop)
        self._is_making = False
        if not self._is_closed:
            self._spare = carrier
            try:
                await carrier.carry()
            finally:
                if self._spare is carrier:  # its context is closed
                    self._spare = None


class _Carrier:
    """A task that waits for a coroutine to carry. Made in the task itself."""

    __slots__ = ("_handed", "_is_over", "_waiting", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        task = current_task(loop)
        assert task is not None
        self.task = task
        self._waiting: asyncio.Future[None] = loop.create_future()
        self._handed: _Handed | None = None

    def take(self, handed: _Handed) -> bool:
        """Resume with the value.

        False if this task was cancelled: the cancellation was meant for a call that never waited.
        """
        if self._waiting.done():
            return False
        self._handed = handed
        self._waiting.set_result(None)
        return True

    def retire(self) -> None:
        if not self._waiting.done():
            self._waiting.set_result(None)

    async def carry(self) -> None:
        error: BaseException | None = None
        try:
            await self._waiting
        except asyncio.CancelledError as cancelled:  # perhaps meant for the coroutine: by a time-out of its first step
            if self._handed is None:
                raise
            error = cancelled
        if self._handed is not None:
            await _drive(self._handed, error)


async def _drive(handed: _Handed, error: BaseException | None = None) -> None:
    """The rest of a coroutine, in a task. `error` is raised where it waits."""
    coroutine, waits_for, variables, then = handed
    try:
        value = await _rest(coroutine, waits_for, variables, error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as raised:  # a supervisor: implementations are other people's code
        then(None, raised)
        if isinstance(raised, asyncio.CancelledError):
            raise
    else:
        then(value, None)


@generator_coroutine
def _rest(
    coroutine: Coroutine[Any, Any, Any], waits_for: Any, variables: Variables, error: BaseException | None
) -> Generator[Any, Any, Any]:
    """Step the coroutine in its variables; what it waits for, the task waits for."""
    try:
        if error is not None:
            waits_for = variables.run(coroutine.throw, error)
        elif waits_for is _BEGIN:
            waits_for = variables.run(coroutine.send, None)
        while True:
            if waits_for is not None:
                waits_for._asyncio_future_blocking = True  # another task may have begun to wait for it since
            try:
                yield waits_for
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as raised:  # noqa: BLE001  # it is the coroutine's to handle
                waits_for = variables.run(coroutine.throw, raised)
            else:
                waits_for = variables.run(coroutine.send, None)
    except StopIteration as stop:
        return stop.value


async def awaited_in(variables: Variables, awaitable: Any) -> Any:
    """Await it, with every step of it in `variables`."""
    return await _rest(awaitable.__await__(), _BEGIN, variables, None)
