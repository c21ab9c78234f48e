"""Streams as their caller reads them."""

from typing import Any

from hutong.foundation.errors import UsageError


class StreamReader:
    def __init__(self, *_: Any) -> None:
        raise UsageError("streams are not there yet.")


class LazyStream(StreamReader):
    pass
