"""Very many ACLs: described in stretches that other clients have loop iterations between."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.loop_iterations import WorkPerIteration
from tests.unit.broker.rights_scene import rights_scene

from hutong.broker.dispatch import long_requests
from hutong.broker.kafka.k29_describe_acls import STEP_ACLS, WHOLE_ACLS_MAX
from hutong.security.acls import AclFilter, Operation, PatternType, Permission, ResourceType
from hutong.wire.kafka.apis.k29_describe_acls import DescribeAclsRequest
from hutong.wire.kafka.apis.k30_create_acls import AclCreation, CreateAclsRequest

COUNT = 3 * WHOLE_ACLS_MAX
NAMES = [f"topic{number}" for number in range(COUNT)]


async def test_many_acls_are_described_a_step_in_each_iteration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, matches = WorkPerIteration(), AclFilter.matches

    def counted(wanted: AclFilter, acl: Any) -> bool:
        work.count()
        return matches(wanted, acl)

    async with rights_scene(tmp_path, monkeypatch) as scene:
        created = [
            AclCreation(ResourceType.TOPIC, name, PatternType.LITERAL, principal, "*", Operation.READ, Permission.ALLOW)
            for name in NAMES
            for principal in ("User:a", "User:b")
        ]
        answer = await scene.admin.ask(CreateAclsRequest(created), 3)
        assert {one.error_code for one in answer.results} == {0}
        monkeypatch.setattr(AclFilter, "matches", counted)
        monkeypatch.setattr(long_requests, "SLICE_US", 0)
        every = DescribeAclsRequest(ResourceType.ANY, None, PatternType.ANY, "User:b", None, Operation.ANY, 1)
        described = await scene.admin.ask(every, 3)
        assert [resource.resource_name for resource in described.resources] == NAMES
        assert {acl.principal for resource in described.resources for acl in resource.acls} == {"User:b"}
        assert work.total == len(created)
        assert work.most <= 2 * STEP_ACLS
        one = DescribeAclsRequest(ResourceType.TOPIC, NAMES[7], PatternType.ANY, None, None, Operation.ANY, 1)
        described = await scene.admin.ask(one, 3)
        assert [acl.principal for acl in described.resources[0].acls] == ["User:a", "User:b"]
