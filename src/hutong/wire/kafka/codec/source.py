"""Python source under construction, with the objects that its names refer to."""

import linecache
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class SourceCode:
    """SourceCode code that grows line by line; `compile` turns it into a function.

    All its text comes from this project's tables: names of fields, struct codes, numbers. Never from input.
    """

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._lines: list[str] = []
        self._depth = 0
        self._names: dict[str, int] = {}
        self._namespace = dict(namespace)

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Indents what is written inside, under `head`."""
        self.line(head + ":")
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """Return an unused local name."""
        count = self._names[prefix] = self._names.get(prefix, 0) + 1
        return f"{prefix}_{count}"

    def constant(self, name: str, item: object) -> str:
        """Make `item` visible to the generated function under `name`."""
        held = self._namespace.setdefault(name, item)
        assert held is item, f"{name} refers to another object already"
        return name

    def packer(self, method: str, codes: str) -> str:
        """The name of a bound method of a precompiled big-endian struct."""
        name = f"{method}_{codes.replace('?', 'z')}"
        if name not in self._namespace:
            self._namespace[name] = getattr(struct.Struct(">" + codes), method)
        return name

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def compile(self, function: str) -> Callable[..., Any]:
        text, filename = self.text(), f"<hutong {function}>"
        # Tracebacks then show the generated line.
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), self._namespace)
        compiled: Callable[..., Any] = self._namespace[function]
        return compiled
