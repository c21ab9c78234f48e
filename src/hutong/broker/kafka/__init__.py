"""Kafka's APIs, one file each, named by key: a function from (request, context) to a response.

A handler that must wait returns a `Pending`. Handlers never see a connection. `dispatch` finds them here by `HANDLERS`,
which imports a file when its API is first asked for: of the seventy most clients use ten, and compiling the codecs of
an API, which is due at that moment as well, takes longer than reading its file.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final

from hutong.wire.kafka.registry import APIS

Handler = Callable[[Any, Any], Any]


class Handlers(Mapping[int, Handler]):
    """The handlers of these APIs by key."""

    def __init__(self, api_keys: frozenset[int]) -> None:
        self._api_keys = sorted(api_keys)
        self._names = {key: f"{__name__}.{APIS[key].module_name}" for key in self._api_keys}
        self._found: dict[int, Handler] = {}

    def __getitem__(self, api_key: int) -> Handler:
        found = self._found.get(api_key)
        if found is None:
            found = self._found[api_key] = import_module(self._names[api_key]).handle
        return found

    def __contains__(self, api_key: object) -> bool:
        return api_key in self._names

    def __iter__(self) -> Iterator[int]:
        return iter(self._api_keys)

    def __len__(self) -> int:
        return len(self._api_keys)


HANDLERS: Final[Mapping[int, Handler]] = Handlers(frozenset(APIS))
