"""Names of a package that are imported at their first use.

Strategy: PEP 562's module `__getattr__`. Other packages need single modules of a package, and commands shall start
fast: `hutong topic list` would import the bus and RPC, too (`python -m bench startup`).
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy_exports(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of `package`.

    `modules` has the names of each module; the module's own name is relative to `hutong`.
    """
    home = {name: f"hutong.{module}" for module, names in modules.items() for name in names}

    def load_export(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: object = getattr(import_module(home[name]), name)
        # Kept, so that the next use is an ordinary attribute.
        setattr(import_module(package), name, found)
        return found

    def list_names() -> list[str]:
        # Also those that are not loaded yet: shells complete them.
        return sorted({*vars(import_module(package)), *home})

    return load_export, list_names
