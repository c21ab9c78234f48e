"""Removes a data folder that a failed start has made, so that a mistyped command leaves nothing behind.

Strategy: only files that every new folder has are removed, and folders that are empty then. A folder with a segment
stays as it is: a client may have been served before the start failed.

Knows nothing of locks: the caller has the folder's.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_OF_A_NEW_GROUP: Final = frozenset({"checkpoint"})


def remove_unused(path: Path, own_files: Sequence[str], made: Sequence[Path]) -> None:
    """Remove the folder `path`, with `own_files` in it, and then the folders `made` around it, the innermost first."""
    with contextlib.suppress(OSError):  # what cannot be removed stays; the start has failed for another reason
        groups = list((path / "groups").iterdir()) if (path / "groups").is_dir() else []
        if any({entry.name for entry in group.iterdir()} - _OF_A_NEW_GROUP for group in groups):
            return
        for group in groups:
            for name in _OF_A_NEW_GROUP:
                (group / name).unlink(missing_ok=True)
            group.rmdir()
        if groups:
            (path / "groups").rmdir()
        for name in own_files:
            (path / name).unlink(missing_ok=True)
        for folder in made:
            folder.rmdir()
