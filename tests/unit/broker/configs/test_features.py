"""The features that ApiVersions announces, in each version that has them."""

from pathlib import Path

import pytest
from tests.unit.broker.wire_node import client_of, running_node

from hutong.broker.configs.features import (
    GROUP_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
    Features,
)
from hutong.wire.kafka.apis.k18_api_versions import ApiVersionsRequest

FINALIZED = {
    GROUP_VERSION: 1,
    METADATA_VERSION: 30,
    SHARE_VERSION: 1,
    STREAMS_VERSION: 1,
    TRANSACTION_VERSION: 2,
    "eligible.leader.replicas.version": 1,
}


def test_a_feature_at_level_0_is_not_finalized() -> None:
    features = Features()
    assert features.finalized() == FINALIZED
    assert features.level("kraft.version") == features.level("nothing.version") == 0
    assert features.level(TRANSACTION_VERSION) == 2


@pytest.mark.parametrize(("version", "supported"), [(3, {METADATA_VERSION}), (4, {*FINALIZED, "kraft.version"})])
async def test_what_clients_are_told(tmp_path: Path, version: int, supported: set[str]) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client:
        answer = await client.ask(ApiVersionsRequest("test", "1"), version)
    assert {feature.name for feature in answer.supported_features} == supported
    assert {feature.name: feature.max_version_level for feature in answer.finalized_features} == FINALIZED
    assert all(feature.min_version_level == feature.max_version_level for feature in answer.finalized_features)
    assert answer.finalized_features_epoch == 1
    assert not answer.zk_migration_ready
