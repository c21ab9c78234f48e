"""MODULE or MODULE:APP on the command line: the `App` that is meant, or a sentence that says which ones there are.

Knows nothing of what an app does.
"""

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hutong.cli.loading import imported
from hutong.foundation.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from hutong.handlers.app import App

NAMES_SHOWN_MAX: Final = 10


def find_app(target: str) -> "App":
    """Import the module and return its app. Raises UsageError; errors of the module's own keep their traceback."""
    from hutong.handlers.app import App

    module_name, name = checked_module(target), target.partition(":")[2]
    module = imported(module_name)
    apps = {found: value for found, value in vars(module).items() if isinstance(value, App)}
    if not name:
        return _only(module_name, apps)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(_no_such(module_name, name, list(apps), list(vars(module))), ExitCode.NOINPUT)
        found = getattr(found, part)
    if not isinstance(found, App):
        raise UsageError(
            f"{target} is of the type {type(found).__name__}, not a hutong.handlers.App.{_offer(module_name, apps)}"
        )
    return found


def checked_module(target: str) -> str:
    """The name of the target's module. Raises UsageError for what cannot be one, or was misspelt."""
    name = target.partition(":")[0]
    if not name:
        raise UsageError(f"{target!r} names no module; write MODULE:APP, as in orders:app.")
    path = Path(name)
    if path.suffix == ".py" or "/" in name:
        dotted = ".".join(path.with_suffix("").parts).strip(".")
        raise UsageError(f"{name} is a file; write the module's name, as in `hutong run {dotted}:app`.")
    top = name.partition(".")[0]
    here = {entry.stem if entry.suffix == ".py" else entry.name for entry in Path().iterdir() if _is_module(entry)}
    near = difflib.get_close_matches(top, here, 1)
    # Only where nothing of the name is at hand: an installed package may be meant.
    if near and top not in here and not _is_installed(top):
        raise UsageError(f"There is no module {top}; did you mean {near[0]}?", ExitCode.NOINPUT)
    return name


def _is_module(entry: Path) -> bool:
    return entry.suffix == ".py" or (entry / "__init__.py").exists()


def _is_installed(name: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _only(module: str, apps: "dict[str, App]") -> "App":
    if not apps:
        raise UsageError(f"The module {module} has no app; in it, write app = App('localhost:9092').", ExitCode.NOINPUT)
    if len(apps) > 1:
        raise UsageError(f"The module {module} has several apps.{_offer(module, apps)}")
    return next(iter(apps.values()))


def _no_such(module: str, name: str, apps: list[str], names: list[str]) -> str:
    near = difflib.get_close_matches(name, apps or names, 1)
    meant = f"; did you mean {module}:{near[0]}?" if near else "."
    return f"The module {module} has no {name}{meant}{'' if near else _offer(module, dict.fromkeys(apps))}"


def _offer(module: str, apps: dict[str, Any]) -> str:
    shown = " or ".join(f"{module}:{name}" for name in sorted(apps)[:NAMES_SHOWN_MAX])
    return f" Write {shown}." if shown else ""
