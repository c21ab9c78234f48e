"""Plans as JSON, so that a failure can be kept and replayed.

Strategy: the fields of the plan's dataclasses, by name, with their types checked: a plan may have been edited by hand.
"""

import dataclasses
import json
import types
from pathlib import Path
from typing import Any, Final, get_args, get_origin, get_type_hints

from hutong.foundation.errors import ExitCode, UsageError
from hutong.testing.simulation.plan import PlannedClient, PlannedMember, SimulationPlan
from hutong.testing.simulation.runner.plan_checks import check_plan

FILE_BYTES_MAX: Final = 1 << 20
_VARIANTS: Final[dict[Any, tuple[Any, ...]]] = {PlannedClient: (PlannedClient, PlannedMember)}


def write_plan(path: Path, plan: SimulationPlan) -> None:
    path.write_text(json.dumps(dataclasses.asdict(plan), indent=2) + "\n")


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
    """The value as `kind`: a dataclass, a tuple of one kind, a tuple of fixed kinds, int or str. Raises ValueError."""
    if dataclasses.is_dataclass(kind):
        return _decoded_class(kind, value, where)
    if isinstance(kind, types.UnionType):
        return None if value is None else _decoded(get_args(kind)[0], value, where)
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
    if type(value) is not kind:
        raise ValueError(f"{where} is not of the type {kind.__name__}")
    return value


def _decoded_class(kind: Any, value: Any, where: str) -> Any:
    # Members of groups are clients with more fields, which tell them apart.
    for each in _VARIANTS.get(kind, (kind,)):
        hints = get_type_hints(each)
        if isinstance(value, dict) and value.keys() == hints.keys():
            return each(**{name: _decoded(hint, value[name], f"{where}.{name}") for name, hint in hints.items()})
    raise ValueError(f"{where} does not have the fields {', '.join(get_type_hints(kind))}")
