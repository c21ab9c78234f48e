"""Every API asks the ACLs for what the table says, and for nothing else."""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from tests.support import every_api
from tests.support.every_api import GROUP, SAMPLES, TRANSACTION, codes_of
from tests.unit.broker.rights_scene import RightsScene, acls, rights_scene

from hutong.broker.apis import BROKER_APIS, Right
from hutong.broker.kafka import HANDLERS
from hutong.wire.kafka.error_codes import ErrorCode

NEEDS = {key: api.needs for key, api in BROKER_APIS.items() if api.needs}
REFUSALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
LIST_GROUPS, LIST_TRANSACTIONS, METADATA = 16, 66, 3
SHARE_FETCH, SHARE_ACKNOWLEDGE = 78, 79
STREAMS_HEARTBEAT = 88


def test_every_api_is_in_the_table() -> None:
    assert BROKER_APIS.keys() == HANDLERS.keys(), "say in broker/apis.py what a new API asks for"
    assert all(bool(api.needs) != bool(api.is_open) for api in BROKER_APIS.values())
    assert SAMPLES.keys() == NEEDS.keys(), "and give tests/support/every_api.py a sample of it"


def is_refused(api_key: int, response: Any) -> bool:
    if api_key == LIST_GROUPS:
        return GROUP not in [group.group_id for group in response.groups]
    if api_key == LIST_TRANSACTIONS:
        return TRANSACTION not in [each.transactional_id for each in response.transaction_states]
    if api_key == STREAMS_HEARTBEAT and any("Unauthorized" in each.status_detail for each in response.status or ()):
        return True
    return bool(REFUSALS.intersection(codes_of(response)))


async def refusals(scene: RightsScene, api_key: int, rights: Iterable[Right]) -> list[bool]:
    """Of each sample of the API, whether alice is refused something while she has just these rights."""
    held = acls(rights)
    for acl in held:
        scene.decisions.add(acl)
    alice, found = scene.client(), []
    for message, version in every_api.samples(api_key, scene.topic_ids):
        if api_key == SHARE_ACKNOWLEDGE:
            await scene.admin.ask(next(every_api.samples(SHARE_FETCH, scene.topic_ids))[0], 1)
        found.append(is_refused(api_key, await alice.ask(message, version)))
        if api_key == METADATA:
            await scene.ask(scene.admin, 20, 6, topics=[{"name": "made-by-asking"}], timeout_ms=1000)
    alice.close()
    for acl in held:
        scene.decisions.remove(acl)
    return found


async def faults_of(scene: RightsScene, api_key: int) -> list[str]:
    needs, faults = NEEDS[api_key], []
    if not all(await refusals(scene, api_key, ())):
        faults.append(f"{api_key} answers somebody who may nothing")
    for number, need in enumerate(needs):
        others = [each[0] for each in (*needs[:number], *needs[number + 1 :])]
        for right in need:
            if any(await refusals(scene, api_key, [*others, right])):
                faults += [f"{api_key} refuses somebody with {others} and {right}"]
        without = [right for right in chain(*needs) if right not in need]
        if not any(await refusals(scene, api_key, without)):
            faults.append(f"{api_key} does not ask for {need}")
    return faults


async def test_every_api_asks_for_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[str] = []
    async with rights_scene(tmp_path, monkeypatch) as scene:
        await scene.populate()
        for api_key in NEEDS:
            faults += await faults_of(scene, api_key)
    assert faults == []
