"""Plans as JSON, so that a failure can be kept and replayed.

Strategy: the fields of the plan's dataclasses, by name, with their types checked: a plan may have been edited by hand.
"""

import dataclasses
import json
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, get_args, get_origin, get_type_hints

from hutong.foundation.errors import ExitCode, UsageError
from hutong.testing.simulation.plan.clients import CLIENTS_BY_KIND, PlannedClient
from hutong.testing.simulation.plan.plan import SimulationPlan
from hutong.testing.simulation.runner.plan_checks import check_plan

FILE_BYTES_MAX: Final = 1 << 20


def write_plan(path: Path, plan: SimulationPlan) -> None:
    path.write_text(json.dumps(encoded_plan(plan), indent=2) + "\n")


def encoded_plan(plan: SimulationPlan) -> dict[str, Any]:
    """The plan as JSON has it: an object with the fields of the dataclass, for each client also its kind."""
    clients = [{"kind": client.kind, **dataclasses.asdict(client)} for client in plan.clients]
    return {**dataclasses.asdict(plan), "clients": clients}


def read_plan(path: Path) -> SimulationPlan:
    """Raises UsageError for a file that is no plan."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"Cannot read the plan {path}: {error.strerror}.", ExitCode.NOINPUT) from None
    if len(content) > FILE_BYTES_MAX:
        raise UsageError(f"The plan {path} has more than {FILE_BYTES_MAX} bytes.", ExitCode.DATAERR)
    try:
        plan: SimulationPlan = _decoded(SimulationPlan, json.loads(content), "plan")
        check_plan(plan)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The file {path} is no plan: {error}.", ExitCode.DATAERR) from None
    return plan


def _decoded(kind: Any, value: Any, where: str) -> Any:
    """The value as `kind`: a dataclass, a tuple, a number, a bool or str. Raises ValueError."""
    if dataclasses.is_dataclass(kind):
        return _decoded_class(kind, value, where)
    if get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise ValueError(f"{where} is not a list")
        kinds = get_args(kind)
        if len(kinds) == 2 and kinds[1] is Ellipsis:
            return tuple(_decoded(kinds[0], each, f"{where}[{number}]") for number, each in enumerate(value))
        if len(value) != len(kinds):
            raise ValueError(f"{where} has {len(value)} values, not {len(kinds)}")
        return tuple(_decoded(each, part, where) for each, part in zip(kinds, value, strict=True))
    # bool is an int to isinstance, and no number here.
    if isinstance(kind, type) and issubclass(kind, IntEnum) and type(value) is int:
        return kind(value)
    if type(value) is not kind:
        raise ValueError(f"{where} is not of the type {kind.__name__}")
    return value


def _decoded_class(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is not an object")
    if kind is PlannedClient:
        kind, value = _client_class(value, where), {name: each for name, each in value.items() if name != "kind"}
    hints = {each.name: get_type_hints(kind)[each.name] for each in dataclasses.fields(kind)}
    if value.keys() != hints.keys():
        raise ValueError(f"{where} does not have the fields {', '.join(hints)}")
    return kind(**{name: _decoded(hint, value[name], f"{where}.{name}") for name, hint in hints.items()})


def _client_class(value: dict[str, Any], where: str) -> type[PlannedClient]:
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in CLIENTS_BY_KIND:
        raise ValueError(f"{where} is no client of the kinds {', '.join(CLIENTS_BY_KIND)}")
    return CLIENTS_BY_KIND[kind]
