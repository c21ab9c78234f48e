"""Share groups and streams groups of all nodes: told, refused, and not told at all."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from hutong.foundation.errors import Expired, HutongError
from hutong.foundation.waiting.pending import Continuation
from hutong.server.http.own_groups import other_groups
from hutong.wire.kafka.apis.k16_list_groups import ListedGroup, ListGroupsResponse
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.headers import decode_request_header, encode_response_frame


class Cluster:
    """Nodes that give these responses."""

    is_alone = False

    def __init__(self, **told: ListGroupsResponse | HutongError | bytes) -> None:
        self.told = {int(name[1:]): outcome for name, outcome in told.items()}
        self.asked: list[Any] = []

    def ask_node(self, node: int, frame: bytes, then: Continuation[bytes]) -> None:
        header, offset = decode_request_header(frame)
        self.asked.append(codecs.decode_request(header.api_key, header.api_version, frame, offset))
        outcome = self.told[node]
        if isinstance(outcome, ListGroupsResponse):
            outcome = b"".join(encode_response_frame(header.api_key, header.api_version, 0, outcome))
        then(outcome)


def groups(cluster: Cluster) -> Any:
    return other_groups(cast(Any, SimpleNamespace(cluster=cluster)), sorted(cluster.told))


def row(name: str, state: str, kind: str) -> dict[str, Any]:
    return {"name": name, "state": state, "type": kind, "is_simple": False}


async def test_the_groups_of_all_nodes() -> None:
    told = [
        ListGroupsResponse(groups=[ListedGroup(f"g{node}", kind, "Stable", kind)])
        for node, kind in ((1, "share"), (2, "streams"))
    ]
    cluster = Cluster(n1=told[0], n2=told[1])
    assert await groups(cluster) == ([row("g1", "stable", "share"), row("g2", "stable", "streams")], [])
    assert [asked.types_filter for asked in cluster.asked] == [["share", "streams"]] * 2


async def test_a_node_that_does_not_tell_is_named_and_the_others_are_of_use() -> None:
    cluster = Cluster(
        n1=ListGroupsResponse(groups=[ListedGroup("g", "share", "Empty", "share")]),
        n2=Expired("10,000 ms are over"),
        n3=ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE),
        n4=b"\0\0\0\x09 no groups",
    )
    found, problems = await groups(cluster)
    assert found == [row("g", "empty", "share")]
    assert [problem.partition(" has not told")[0] for problem in problems] == ["node 2", "node 3", "node 4"]


async def test_a_node_alone_knows_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    shared, classic = ListedGroup("s", "share", "Stable", "share"), ListedGroup("c", "consumer", "Stable", "classic")
    monkeypatch.setattr("hutong.server.http.own_groups.all_groups", lambda broker: iter([classic, shared]))
    alone = SimpleNamespace(cluster=SimpleNamespace(is_alone=True))
    assert await other_groups(cast(Any, alone), [1]) == ([row("s", "stable", "share")], [])
