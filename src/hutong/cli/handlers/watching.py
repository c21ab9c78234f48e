"""The files of a module, and whether they have changed.

Strategy: times of change are read twice a second. That works on every file system, also those of containers, where the
kernel's notices do not come.

Knows nothing of processes.
"""

import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

FILES_MAX: Final = 10_000
_NOT_WATCHED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})

Times = Mapping[str, int]
"""Time of the last change by path, in nanoseconds."""


class WatchedModule:
    """All Python files of the package of a module; of a module without a package, those of its folder."""

    def __init__(self, module: str) -> None:
        top = module.partition(":")[0].partition(".")[0]
        found = find_spec(top)
        folders = [] if found is None else list(found.submodule_search_locations or ())
        self._is_package = bool(folders)
        origin = Path() if found is None or not found.origin else Path(found.origin).parent
        self._folders = [Path(folder) for folder in folders] or [origin]
        self._times = self._read()

    def changed(self) -> list[str]:
        """Paths that are new, changed or gone since the last call."""
        before, self._times = self._times, self._read()
        return sorted(path for path in before.keys() | self._times.keys() if before.get(path) != self._times.get(path))

    def _read(self) -> Times:
        times = {}
        for path in self._paths():
            try:
                times[path] = os.stat(path).st_mtime_ns
            except FileNotFoundError:  # an editor has just replaced it
                continue
            if len(times) >= FILES_MAX:
                break
        return times

    def _paths(self) -> Iterator[str]:
        for top in self._folders:
            for folder, folders, names in os.walk(top):
                folders[:] = [
                    name
                    for name in folders
                    if self._is_package and not name.startswith(".") and name not in _NOT_WATCHED
                ]
                yield from (os.path.join(folder, name) for name in names if name.endswith(".py"))
