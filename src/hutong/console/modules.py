"""The modules that a page needs, by the import statements of the files themselves.

Strategy: a browser learns of a module's imports when it has the module, one wave after the other. So the index names
all of them at once, for the page that its path opens (HTML, `modulepreload`). What is found here is only a hint: a
module that is missed loads a little later.

Knows nothing of requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from posixpath import dirname, join, normpath
from typing import Final

ENTRY: Final = "app.js"
_IMPORT: Final = re.compile(r'^(?:import|export)\s(?:[^"\n]*\sfrom\s)?"(\.[^"\n]+)";', re.MULTILINE)
_PAGE: Final = re.compile(r'\{ path: "(/[^"\n]*)", load: \(\) => import\("(\./[^"\n]+)"\)')


class PageModules:
    """Of all files, by their names."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._imports = {name: [*_imports(name, text)] for name, text in texts.items()}
        found = _PAGE.findall(texts[ENTRY])
        self.pages: list[tuple[str, str]] = [(pattern, _resolved(ENTRY, module)) for pattern, module in found]

    def of_path(self, path: str) -> list[str]:
        """The entry and the page's module, then what they import, each once and the nearest first."""
        view = next((module for pattern, module in self.pages if _fits(pattern, path)), None)
        wanted = [ENTRY] if view is None else [ENTRY, view]
        for name in wanted:  # grows meanwhile
            wanted += [each for each in self._imports.get(name, ()) if each not in wanted]
        return [name for name in wanted if name in self._imports]


def _imports(name: str, text: str) -> Iterator[str]:
    return (_resolved(name, each) for each in _IMPORT.findall(text))


def _resolved(importer: str, relative: str) -> str:
    return normpath(join(dirname(importer), relative))


def _fits(pattern: str, path: str) -> bool:
    wanted, given = pattern.strip("/").split("/"), path.strip("/").split("/")
    fits = (part.startswith(":") or part == there for part, there in zip(wanted, given, strict=False))
    return len(wanted) == len(given) and all(fits)
