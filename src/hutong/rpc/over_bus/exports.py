"""Objects that a caller passes as arguments: each bound at an address of its own, for the peer to call back.

Strategy: an object that is passed again has the same address, so that a peer can tell that it is the same, and
repeated calls bind nothing more. It is released by the caller, by a method that closes, by its idle time, or at the end
of the connection.

Its methods run in the caller's context, one of an event loop as well as one of a worker that awaits its call. A worker
that blocks instead could answer nothing, so there they run in a worker context of their own.

Knows no transport.
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from hutong.foundation.errors import LimitExceeded
from hutong.foundation.waiting.table import Owner
from hutong.rpc.call import RELEASE
from hutong.rpc.calling.references import BLOCKS
from hutong.rpc.descriptions.description import describe
from hutong.rpc.over_bus.releasing import UNCOUNTED, Released, releasing
from hutong.rpc.over_bus.temporaries import BindingTemporaries, dispatcher_of
from hutong.rpc.over_bus.temporary import Surroundings, Temporary
from hutong.runtime.contexts.contexts import Context, ContextKind, current_context
from hutong.runtime.runtime import Runtime

if TYPE_CHECKING:
    from hutong.rpc.calling.caller import Caller

_Key = tuple[int, type]
_Exported = tuple[Temporary, object]  # the object is kept: its id is the key


class ReferenceContexts:
    """The contexts of objects that are passed where no context is current, or one that blocks."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._made: dict[ContextKind, Context] = {}

    def choose(self) -> Context:
        """The context for an object that the caller of this passes."""
        current = current_context()
        if current is not None and current.kind is not ContextKind.MULTI_WORKER:
            return current
        # One object of a multi-threaded worker is called by one thread at a time, as those of other callers.
        kind = ContextKind.WORKER if current is not None or BLOCKS.get() else ContextKind.EVENT_LOOP
        if kind not in self._made:
            self._made[kind] = self._runtime.context(kind, name="references", loop=0)
        return self._made[kind]


class Exports:
    """The objects passed to one peer: over the bus, or over one connection. From any thread."""

    def __init__(
        self,
        surroundings: Surroundings,
        contexts: ReferenceContexts,
        caller: "Caller",
        owner_of: Callable[[], Owner],
        references_max: int,
        *,
        is_tied: bool = True,
    ) -> None:
        self._surroundings = surroundings
        self._contexts = contexts
        self._owner_of = owner_of
        self._references_max = references_max
        self._is_tied = is_tied
        self._temporaries = BindingTemporaries(surroundings, caller)  # what their methods return
        self._exported: dict[_Key, _Exported] = {}
        self._lock = threading.RLock()  # what cannot be opened is forgotten under it

    def __len__(self) -> int:
        return len(self._exported)

    def export(self, protocol: type, value: object, *, is_repeated: bool) -> Temporary:
        """Pin the object and return where it is bound; the caller must `unpin` it.

        Raises UsageError for an object that does not implement the Protocol, LimitExceeded.
        """
        # A call that may be sent twice may be received twice: what comes back cannot be counted against it.
        references = UNCOUNTED if is_repeated else 1
        with self._lock:
            # By identity: objects may be equal, or not hashable.
            found = self._exported.get((id(value), protocol))
            if found is not None and found[0].is_open:
                found[0].pins += 1
                found[0].references += references
                return found[0]
            if len(self._exported) >= self._references_max:
                raise LimitExceeded("references_per_connection_max", self._references_max)
            context = self._contexts.choose()
            dispatcher = dispatcher_of(self._surroundings, describe(protocol), value, context, self._temporaries)
            key = (id(value), protocol)
            temporary = Temporary(
                self._surroundings, dispatcher, self._owner_of, lambda closed: self._forget(key, closed)
            )
            # Before it can be found: a call that ends at once must not leave it unpinned for the next.
            temporary.pins, temporary.references = 1, references
            dispatcher.served[RELEASE] = releasing(partial(self._returned, temporary))
            temporary.open(self._references_max, is_tied=self._is_tied)
            self._exported[key] = (temporary, value)
        return temporary

    def unpin(self, temporary: Temporary, *, is_received: bool) -> None:
        """A call that passed it is over. Its service has it now, unless it was not received."""
        with self._lock:
            temporary.references -= not is_received
            temporary.unpin()

    def _returned(self, temporary: Temporary, arguments: Released) -> None:
        with self._lock:
            temporary.returned(arguments.count)

    def release(self, value: object) -> bool:
        """Bind the object no more. False if it was not bound."""
        with self._lock:
            found = [temporary for (number, _), (temporary, _) in self._exported.items() if number == id(value)]
        # Outside of the lock, which `_forget` takes.
        for temporary in found:
            temporary.close()
        return bool(found)

    def close(self) -> None:
        """Release them all, and what their methods have returned."""
        with self._lock:
            every = [temporary for temporary, _ in self._exported.values()]
        for temporary in every:
            temporary.close()
        self._temporaries.close()

    def _forget(self, key: _Key, temporary: Temporary) -> None:
        with self._lock:
            found: Any = self._exported.get(key)
            # The object may have been passed again meanwhile, and then has another address.
            if found is not None and found[0] is temporary:
                del self._exported[key]
