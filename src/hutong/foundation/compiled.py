"""Compiled passes over bytes, of which each has a function in Python that does the same.

An installation has them where it had a compiler. A build of another contract, such as an older one on disk, is not
used: its arguments or rules are others.
"""

import importlib
from types import ModuleType


def compiled_module(name: str, contract: int) -> ModuleType | None:
    """The compiled module of this name and contract; None where the installation has none."""
    try:
        found = importlib.import_module(name)
    # No compiler was there, or no Python.h; or this Python is not the one that it was built for.
    except ImportError:
        return None
    # An older build stays on disk where the installation could not build it again.
    return found if getattr(found, "CONTRACT", None) == contract else None
