"""The handler and context that a thread runs, read from its stack.

Strategy: contexts call handlers from few places, and those are found on the stack by their code; there the context and
the handler are local variables. Shown is the first line below that is not ours, for a handler is the user's. Where none
of those places is on the stack, it is a callback of the loop: the first line below the loop's own.

Reads other threads' frames, so only what cannot change under it: names, lines and local variables of frames that wait.
"""

from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

from hutong.runtime.contexts import contexts
from hutong.runtime.contexts.coroutines import Coroutines
from hutong.runtime.contexts.loop_context import LoopContext
from hutong.runtime.contexts.workers import MultiWorkerContext, WorkerContext
from hutong.runtime.loops import loops

_OURS: Final = str(Path(__file__).parents[2])
_LOOPS: Final = ("/asyncio/", "/uvloop/", "/selectors.py", loops.__file__)
_RUNNERS: Final[dict[CodeType, tuple[str, str]]] = {  # code -> the names of its local variables: context, handler
    LoopContext._run_pass.__code__: ("self", "handler"),
    WorkerContext._run_handlers.__code__: ("self", "handler"),
    MultiWorkerContext._run_handler.__code__: ("self", "handler"),
    Coroutines.drive.__code__: ("self", "handler"),
    contexts._block.__code__: ("context", "work"),
}


def doing(frame: FrameType) -> str | None:
    """`name (file:line) of <context>`, for the innermost frame of a thread; None if that is a loop that waits."""
    below: list[FrameType] = []  # innermost first
    for outer in _outwards(frame):
        names = _RUNNERS.get(outer.f_code)
        if names is not None:
            variables = outer.f_locals
            context, handler = variables[names[0]], variables.get(names[1])
            theirs = next((inner for inner in reversed(below) if not inner.f_code.co_filename.startswith(_OURS)), None)
            shown = _place(theirs) if theirs is not None else getattr(handler, "__qualname__", repr(handler))
            return f"{shown} of {getattr(context, 'owner', context)!r}"
        below.append(outer)
    called = _below_the_loop(below)
    return None if called is None else _place(called)


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _below_the_loop(frames: list[FrameType]) -> FrameType | None:
    """Given innermost first: what the loop called, None if nothing. Without any loop: the innermost."""
    in_loop = False
    for frame in reversed(frames):
        is_loop = any(part in frame.f_code.co_filename for part in _LOOPS)
        if in_loop and not is_loop:
            return frame
        in_loop = in_loop or is_loop
    return None if in_loop else frames[0]


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"
