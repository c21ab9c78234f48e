"""Targets for what the cluster's coordinator and its metadata hold."""

from collections.abc import Iterator

from tests.fuzz.target import Target

from hutong.cluster import records
from hutong.cluster.image import ClusterImage
from hutong.cluster.set_rules import founded, without_nodes
from hutong.replication.group_state import PartitionGroupState


def read_state(data: bytes) -> object:
    """The value of the coordinator's register."""
    state = records.decode_group(data)
    assert records.decode_group(records.encode_group(state)) == state
    return state


def states() -> Iterator[bytes]:
    for state in _states():
        yield records.encode_group(state)


def _states() -> Iterator[PartitionGroupState]:
    yield founded("metadata", (1,), 7)
    yield without_nodes(founded("days-1", (3, 1, 2), 2**63 - 1), {1, 2})


def read_record(data: bytes) -> object:
    """A record of the metadata log, its key before a newline."""
    key, separator, value = data.partition(b"\n")
    image = ClusterImage()
    return image.apply(key, value if separator else None)


def record_lines() -> Iterator[bytes]:
    for state in _states():
        yield b"\n".join((records.group_key(state.name), records.encode_group(state)))
    yield b"\n".join((records.SETTINGS_KEY, records.encode_settings(records.FoundingSettings())))
    yield b"\n".join((records.node_key(12), records.encode_node(records.KnownNode("east"))))
    yield b"\n".join((records.drained_key(3), b"{}"))
    yield b"\n".join((records.move_key("days"), records.encode_move(records.PlannedMove((1, 2), (2, 3)))))
    yield records.move_key("days")


TARGETS = [Target("cluster-register", read_state, states), Target("cluster-record", read_record, record_lines)]
