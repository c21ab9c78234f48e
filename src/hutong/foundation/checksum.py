"""CRC-32C, from the package `crc32c`.

Strategy: the package's opening asks `importlib.metadata` for its own version, which brings thirty modules (email, csv,
zipfile) that a node has no use for, a tenth of what it imports. So the compiled module within is loaded by itself.
"""

import importlib.util
from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import Any


def _load() -> Callable[..., int]:
    package = importlib.util.find_spec("crc32c")
    places = package.submodule_search_locations if package else None
    found = PathFinder.find_spec("crc32c._crc32c", places) if places else None
    if found is None or found.loader is None:  # a release that is built in another way, or no package at all
        from crc32c import crc32c as whole

        return whole
    module: Any = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    function: Callable[..., int] = module.crc32c
    return function


crc32c = _load()
"""The checksum of a buffer; as a second argument, the checksum of the bytes before it."""
