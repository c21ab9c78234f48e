"""Addresses of ensembles, and the data of a cluster as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutong.cluster.coordinator.port import NodeRegistration
from hutong.cluster.coordinator.zookeeper.address import ZooKeeperServer, parse_zookeeper_address
from hutong.cluster.coordinator.zookeeper.layout import (
    ClusterPaths,
    decode_marker,
    decode_registration,
    encode_marker,
    encode_registration,
)
from hutong.foundation.errors import ProtocolError, UsageError


@pytest.mark.parametrize(
    ("text", "servers", "path"),
    [
        ("zk://localhost:2181/hutong", [("localhost", 2181)], "/hutong"),
        ("zk://a:1,b:2, c:3/deep/path/", [("a", 1), ("b", 2), ("c", 3)], "/deep/path"),
        ("ZK://[::1]:2181", [("::1", 2181)], "/"),
        ("zk://10.0.0.1:65535/", [("10.0.0.1", 65535)], "/"),
    ],
)
def test_an_address_is_read(text: str, servers: list[tuple[str, int]], path: str) -> None:
    address = parse_zookeeper_address(text)
    assert address.servers == tuple(ZooKeeperServer(host, port) for host, port in servers)
    assert address.path == path
    assert parse_zookeeper_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "does not begin with zk://"),
        ("localhost:2181/hutong", "does not begin with zk://"),
        ("etcd://localhost:2379/hutong", "does not begin with zk://"),
        ("zk://", "lacks a server"),
        ("zk:///hutong", "lacks a server"),
        ("zk://a:1,,b:2/hutong", "lacks a server"),
        ("zk://localhost/hutong", "has no port behind localhost"),
        ("zk://[::1]/hutong", "has no port behind"),
        ("zk://::1:2181/hutong", "without brackets"),
        ("zk://localhost:/hutong", "is not HOST:PORT"),
        ("zk://localhost:0/hutong", "is not HOST:PORT"),
        ("zk://localhost:65536/hutong", "is not HOST:PORT"),
        ("zk://localhost:٢١٨١/hutong", "is not HOST:PORT"),
        ("zk://[]:2181/hutong", "is not HOST:PORT"),
        ("zk://name:secret@localhost:2181/hutong", "has a user"),
        ("zk://localhost:2181//hutong", "an empty part"),
        ("zk://localhost:2181/a/../b", "a part of dots"),
        ("zk://localhost:2181/a\x00b", "cannot be printed"),
        ("zk://localhost:2181/zookeeper/hutong", "ZooKeeper's own"),
        ("zk://" + ",".join(["a:1"] * 65) + "/hutong", "more than 64 servers"),
    ],
)
def test_a_wrong_address_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=r"write it as zk://zk1:2181") as raised:
        parse_zookeeper_address(text)
    assert reason in str(raised.value)


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    for candidate in (text, f"zk://{text}", f"zk://a:1/{text}"):
        try:
            address = parse_zookeeper_address(candidate)
        except UsageError:
            continue
        assert address.path.startswith("/")


def test_paths_of_a_cluster() -> None:
    deep, root = ClusterPaths("/a/b"), ClusterPaths("/")
    assert (deep.marker, deep.node(7), deep.register) == ("/a/b/hutong", "/a/b/nodes/7", "/a/b/register")
    assert deep.parents() == ["/a", "/a/b"]
    assert (root.marker, root.nodes, root.parents()) == ("/hutong", "/nodes", [])


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))
def test_a_registration_is_read_as_it_was_written(node: int, incarnation: int) -> None:
    registration = NodeRegistration(node, incarnation, b'{"peer": {"host": "a", "port": 1}}')
    assert decode_registration(str(node), encode_registration(registration)) == registration


@given(st.text())
def test_a_marker_is_read_as_it_was_written(cluster_id: str) -> None:
    assert decode_marker(encode_marker(cluster_id)).cluster_id == cluster_id


@given(st.text() | st.just("1"), st.binary() | st.just(b'{"incarnation":"x","description":{}}'))
def test_no_data_of_others_breaks_the_readers(name: str, content: bytes) -> None:
    for decode in (decode_marker, lambda content: decode_registration(name, content)):
        with pytest.raises(ProtocolError):
            decode(content)
