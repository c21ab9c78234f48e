"""Changes of the settings of groups, as IncrementalAlterConfigs asks for them.

Knows nothing of what the settings do; which there are and what they may be is `groups.configs`' business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import HutongError, Refused
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.groups.configs import GroupConfigs
    from hutong.wire.kafka.apis.k44_incremental_alter_configs import AlterableConfig

_SET: Final = 0
_DELETE: Final = 1


def alter_group(
    configs: GroupConfigs,
    group_id: str,
    changes: Iterable[AlterableConfig],
    validate_only: bool,
    then: Callable[[HutongError | None], None],
) -> None:
    """Set and delete single settings of one group; `then` is called once that is durable. Raises Refused."""
    overrides: dict[str, str | None] = dict(configs.of(group_id))
    for change in changes:
        _apply(change, overrides, configs.keys)
    if not group_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    if validate_only:
        configs.check(overrides)
        then(None)
    else:
        configs.alter(group_id, overrides, then)


def _apply(change: AlterableConfig, overrides: dict[str, str | None], keys: Mapping[str, object]) -> None:
    if change.name not in keys:
        raise Refused(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {change.name[:100]}")
    if change.config_operation == _SET:
        overrides[change.name] = change.value
    elif change.config_operation == _DELETE:
        overrides.pop(change.name, None)
    else:
        raise Refused(ErrorCode.INVALID_CONFIG, f"{change.name} is not a list")
