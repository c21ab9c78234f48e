"""Verticles by name, so that another node can make them: MODULE:CLASS, and options that are JSON.

Knows no cluster.
"""

import importlib
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import msgspec

from hutong.foundation.errors import UsageError
from hutong.runtime.verticles import DeploymentOptions, Verticle

_FIELDS = frozenset(DeploymentOptions.__dataclass_fields__) - {"ha"}


def name_of(make: Callable[[], Verticle]) -> str:
    """The name of a class of verticles. Raises UsageError for one that another process cannot import."""
    module, name = getattr(make, "__module__", ""), getattr(make, "__qualname__", "")
    if not isinstance(make, type) or not issubclass(make, Verticle) or "<" in name:
        raise UsageError(
            f"{make!r} cannot be deployed with ha=True: another node makes it by its name, so it must be a class of "
            "verticles at the top of a module; what it needs belongs into DeploymentOptions(config={...})."
        )
    # Another process has another main program.
    if module == "__main__":
        raise UsageError(
            f"{name} cannot be deployed with ha=True from the program's main file: another node imports it by its "
            "module's name. Move the class to a module of its own."
        )
    return f"{module}:{name}"


def load(name: str) -> type[Verticle]:
    """Import the class. Raises UsageError where this node has none of the name. It may block."""
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"this node has no verticle {name}: {error}") from None
    # An entry may name anything that can be imported, and nothing else of it is called.
    if not isinstance(found, type) or not issubclass(found, Verticle):
        raise UsageError(f"{name} is no class of verticles")
    return found


def options_to_json(options: DeploymentOptions) -> dict[str, Any]:
    """Those that differ from the default. Their kinds by name."""
    standard, given = asdict(DeploymentOptions()), asdict(options)
    found = {name: given[name] for name in _FIELDS if given[name] != standard[name]}
    return {**found, "ha": True} | ({"kind": options.kind.value} if "kind" in found else {})


def options_from_json(options: dict[str, Any]) -> DeploymentOptions:
    """Raises UsageError for what no node has written."""
    try:
        # A newer version may have more options.
        given = {name: value for name, value in options.items() if name in _FIELDS}
        made: DeploymentOptions = msgspec.convert(given, DeploymentOptions)
    except (msgspec.ValidationError, ValueError) as error:
        raise UsageError(f"these are no options of a verticle: {error}") from None
    return replace(made, ha=False)
