"""UpdateFeatures (key 57, versions 0-2): finalize other levels of features (KIP-584, KIP-778, KIP-1022).

All updates of a request are made, or none. A lower level must be asked for as a downgrade. The level of
`metadata.version` stays: what is on disk here does not depend on it. The client needs ALTER of the cluster.
"""

from __future__ import annotations

from typing import Final

from hutong.broker.configs.features import METADATA_VERSION, Features
from hutong.broker.configs.parts import AdminParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import PendingInParts, put_error
from hutong.broker.rights.authorization import check_cluster
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import Operation
from hutong.wire.kafka.apis.k57_update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 57
_UPGRADE: Final = 1
_SAFE_DOWNGRADE: Final = 2
_UNSAFE_DOWNGRADE: Final = 3
_KINDS_FROM_VERSION: Final = 1
_RESULTS_UP_TO_VERSION: Final = 1
_FIXED: Final = (METADATA_VERSION, "kraft.version")


def handle(
    request: UpdateFeaturesRequest, context: RequestContext[AdminParts]
) -> UpdateFeaturesResponse | Pending[UpdateFeaturesResponse]:
    features = context.broker.admin.features
    pending = PendingInParts(UpdateFeaturesResponse(error_message=None))
    try:
        check_cluster(context, Operation.ALTER)
        for update in request.feature_updates:
            _check(update, _kind(update, context.api_version), features)
    except Refused as refused:
        put_error(pending.response, refused)
        return pending.response
    if context.api_version <= _RESULTS_UP_TO_VERSION:
        pending.response.results = [
            UpdatableFeatureResult(update.feature, error_message=None) for update in request.feature_updates
        ]

    def settle(outcome: HutongError | None) -> None:
        if outcome is not None:
            put_error(pending.response, outcome)
        pending.settle_part()

    for update in () if request.validate_only else request.feature_updates:
        if update.max_version_level != features.level(update.feature):
            pending.expect_part()
            features.update(update.feature, update.max_version_level, settle)
    return pending.answer()


def _kind(update: FeatureUpdateKey, api_version: int) -> int:
    if api_version >= _KINDS_FROM_VERSION:
        return update.upgrade_type
    return _SAFE_DOWNGRADE if update.allow_downgrade else _UPGRADE


def _check(update: FeatureUpdateKey, kind: int, features: Features) -> None:
    """Check the change of one feature. Raises Refused(INVALID_UPDATE_VERSION)."""
    name, level = update.feature, update.max_version_level
    feature = features.supported.get(name)
    if feature is None:
        raise _invalid(f"This node knows no feature {name[:100]}.")
    if kind not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        raise _invalid(f"There is no kind {kind} of update.")
    if not feature.level_min <= level <= feature.level_max:
        raise _invalid(f"{name} has levels {feature.level_min} to {feature.level_max} here.")
    if level < features.level(name) and kind == _UPGRADE:
        raise _invalid(f"Level {level} of {name} is a downgrade; ask for one.")
    if level != features.level(name) and name in _FIXED:
        raise _invalid(f"The level of {name} cannot be changed here.")


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_UPDATE_VERSION, message)
