"""The base of contexts whose handlers run one at a time: it keeps the coroutines that they began.

Knows neither loops nor pools: a subclass schedules.
"""

from collections.abc import Coroutine
from functools import partial
from typing import Any

from hutong.runtime.contexts.contexts import Context
from hutong.runtime.contexts.coroutines import Coroutines


class SerialContext(Context):
    """A context with one set of coroutines, which the subclass makes."""

    __slots__ = ("_coroutines",)

    _coroutines: Coroutines

    def drive(self, coroutine: Coroutine[Any, Any, object]) -> None:
        self._coroutines.start(coroutine)

    @property
    def is_busy(self) -> bool:
        return self.is_scheduled or len(self._coroutines) > 0

    async def cancel_coroutines(self, *, is_last: bool = False) -> None:
        if self.is_busy:
            await self._call(partial(self._coroutines.cancel, is_last=is_last))
        elif is_last:
            self._coroutines.close()
