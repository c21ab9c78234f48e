"""MODULE:NAME on the command line: the object of that name in the user's own code.

Strategy: the current folder comes first, as for `python -m`. An error that the module raises while it is imported keeps
its traceback, because its author needs it.

Knows nothing of what is loaded.
"""

import importlib
import sys
from typing import Any

from hutong.foundation.errors import ExitCode, UsageError


def load(text: str, what: str) -> Any:
    """The object that `text`, as MODULE:NAME, names. Raises UsageError; `what` is the kind of NAME, as "Protocol"."""
    module_name, colon, name = text.partition(":")
    if not (module_name and colon and name):
        raise UsageError(f"{text!r} names no {what}; write MODULE:{what.upper()}, as in shop.orders:{_example(what)}.")
    module = imported(module_name)
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(f"The module {module_name} has no {name}{_others(module)}.", ExitCode.NOINPUT)
        found = getattr(found, part)
    return found


def imported(name: str) -> Any:
    """The module of that name. Raises UsageError where there is none."""
    if "" not in sys.path and "." not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing and (name == missing or name.startswith(f"{missing}.")):
            text = f"There is no module {missing}; is it in this folder, or installed with hutong?"
            raise UsageError(text, ExitCode.NOINPUT) from None
        raise UsageError(f"The module {name} needs {missing}, which is not installed.", ExitCode.NOINPUT) from None
    except (ImportError, ValueError, TypeError) as error:  # the last two: names such as ".." and "a..b"
        raise UsageError(f"The module {name} cannot be imported: {str(error).rstrip('.')}.", ExitCode.NOINPUT) from None


def _others(module: Any) -> str:
    """The names that the module itself defines, if they are few."""
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    return f"; it has {', '.join(sorted(own))}" if 0 < len(own) <= 10 else ""


def _example(what: str) -> str:
    return "Orders" if what == "protocol" else "bind_services"
