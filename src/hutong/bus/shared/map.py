"""A map that all nodes share: vertx-zookeeper's ZKAsyncMap.

Strategy: one entry for each key, its content is the value. A change that depends on the present value is written only
if the version is still the same; otherwise it begins again. Vert.x reads first there and writes then, so of two changes
at the same time one may be lost.

Knows no ZooKeeper.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from hutong.bus.shared.names import Key, checked_name, key_name, key_of
from hutong.bus.shared.port import CONTENT_BYTES_MAX, EntryStore
from hutong.bus.shared.running import SharedWork
from hutong.bus.shared.values import VALUE_CODECS, decode_value, encode_value
from hutong.bus.waiting.promise import Promise
from hutong.foundation.errors import LimitExceeded

ATTEMPTS_MAX: Final = 1_000
"""To change a key that other nodes change at the same time."""
AT_ONCE_MAX: Final = 1_000
"""Requests under way for one call."""


class SharedMap:
    """Made by `bus.shared.map`. Any thread may call. Values are those of docs/shared-data.md; None is none of them."""

    def __init__(self, work: SharedWork, name: str, codec: str | None) -> None:
        """Raises UsageError for a name that ZooKeeper cannot keep, ValueError for a codec that values cannot have."""
        if codec is not None and codec not in VALUE_CODECS:
            raise ValueError(
                f"values of a shared map cannot have the codec {codec!r}: {', '.join(sorted(VALUE_CODECS))}"
            )
        self.name = checked_name(name, "map")
        self._work = work
        self._codec = codec
        self._path = f"asyncMap/{name}"

    def get(self, key: Key) -> Promise[Any]:
        """The value, or None."""
        path = self._path_of(key)

        async def get(store: EntryStore) -> Any:
            entry = await store.read(path)
            return None if entry is None else decode_value(entry.content)

        return self._work.run(get)

    def put(self, key: Key, value: Any) -> Promise[None]:
        """Have the value at the key."""
        path, content = self._path_of(key), self._encoded(value)

        async def put(store: EntryStore) -> None:
            for _ in range(ATTEMPTS_MAX):
                # In turn, as others may remove and create it meanwhile. Most puts are of a key that is there.
                if await store.write(path, content) or await store.create(path, content):
                    return
            raise LimitExceeded("attempts_max", ATTEMPTS_MAX)

        return self._work.run(put)

    def put_if_absent(self, key: Key, value: Any) -> Promise[Any]:
        """Have the value at the key, unless it has one: that is given then, else None."""
        path, content = self._path_of(key), self._encoded(value)

        async def put_if_absent(store: EntryStore) -> Any:
            for _ in range(ATTEMPTS_MAX):
                if await store.create(path, content):
                    return None
                entry = await store.read(path)
                # Removed in between.
                if entry is not None:
                    return decode_value(entry.content)
            raise LimitExceeded("attempts_max", ATTEMPTS_MAX)

        return self._work.run(put_if_absent)

    def replace(self, key: Key, value: Any) -> Promise[Any]:
        """Have another value at a key that has one, which is given; None where it has none, and nothing is changed."""
        content = self._encoded(value)
        return self._change(key, content, lambda found: True, lambda found: found)

    def replace_if_present(self, key: Key, old: Any, new: Any) -> Promise[bool]:
        """Have `new` at a key that has `old`. Gives False where it has another value or none."""
        content = self._encoded(new)
        return self._change(key, content, lambda found: found == old, lambda found: found is not None)

    def remove(self, key: Key) -> Promise[Any]:
        """Remove the key. Gives the value that it had, or None."""
        return self._change(key, None, lambda found: True, lambda found: found)

    def remove_if_present(self, key: Key, value: Any) -> Promise[bool]:
        """Remove a key that has this value. Gives False where it has another one or none."""
        return self._change(key, None, lambda found: found == value, lambda found: found is not None)

    def keys(self) -> Promise[list[Key]]:
        """All keys, in no order that means anything."""

        async def keys(store: EntryStore) -> list[Key]:
            return [key_of(name) for name in await store.names(self._path) or ()]

        return self._work.run(keys)

    def items(self) -> Promise[dict[Key, Any]]:
        """All keys with their values; each is read by itself, so they may be of different moments."""

        async def items(store: EntryStore) -> dict[Key, Any]:
            found: dict[Key, Any] = {}
            names = await store.names(self._path) or []
            # In parts: the requests of one part are under way together.
            for begin in range(0, len(names), AT_ONCE_MAX):
                part = names[begin : begin + AT_ONCE_MAX]
                entries = await asyncio.gather(*(store.read(f"{self._path}/{name}") for name in part))
                found |= {
                    key_of(name): decode_value(entry.content)
                    for name, entry in zip(part, entries, strict=True)
                    if entry is not None  # removed in between
                }
            return found

        return self._work.run(items)

    def size(self) -> Promise[int]:
        """The number of keys."""

        async def size(store: EntryStore) -> int:
            return len(await store.names(self._path) or ())

        return self._work.run(size)

    def clear(self) -> Promise[None]:
        """Remove every key that there is now."""

        async def clear(store: EntryStore) -> None:
            names = await store.names(self._path) or []
            for begin in range(0, len(names), AT_ONCE_MAX):
                part = names[begin : begin + AT_ONCE_MAX]
                # The map's own entry stays: as a container it goes by itself, and a put in between would be lost.
                await asyncio.gather(*(store.remove(f"{self._path}/{name}") for name in part))

        return self._work.run(clear)

    def _change(
        self, key: Key, content: bytes | None, may: Callable[[Any], bool], outcome: Callable[[Any], Any]
    ) -> Promise[Any]:
        """Write the content (None removes) if `may` allows it for the present value. Gives `outcome` of that value.

        Where nothing is changed, it is the outcome of None.
        """
        path = self._path_of(key)

        async def change(store: EntryStore) -> Any:
            for _ in range(ATTEMPTS_MAX):
                entry = await store.read(path)
                if entry is None:
                    return outcome(None)
                # Decoded and compared as values: equal JSON may be written in other bytes by Java.
                found = decode_value(entry.content)
                if not may(found):
                    return outcome(None)
                # The version is the one that was read: a change in between makes it begin again.
                if content is None:
                    is_done = await store.remove(path, entry.version)
                else:
                    is_done = await store.write(path, content, entry.version)
                if is_done:
                    return outcome(found)
            raise LimitExceeded("attempts_max", ATTEMPTS_MAX)

        return self._work.run(change)

    def _path_of(self, key: Key) -> str:
        return f"{self._path}/{key_name(key)}"

    def _encoded(self, value: Any) -> bytes:
        # At the call and not in the work: a caller may change its dict afterwards.
        content = encode_value(value, self._codec)
        if len(content) > CONTENT_BYTES_MAX:
            raise LimitExceeded("value_bytes_max", CONTENT_BYTES_MAX)
        return content
