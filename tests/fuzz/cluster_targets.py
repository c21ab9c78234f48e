"""Targets for what the cluster's coordinator and its metadata hold."""

from collections.abc import Iterator

from tests.fuzz.target import Target

from hutong.cluster import records
from hutong.cluster.controller import commands, proposals
from hutong.cluster.controller.messages import ProposalReply
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


def read_question(data: bytes) -> object:
    """A command or a proposal that another node passes on, by its first byte."""
    decode = (
        commands.decode_command,
        commands.decode_reply,
        proposals.decode_proposal,
        proposals.decode_proposal_reply,
    )
    return decode[data[0] % 4](data[1:]) if data else None


def questions() -> Iterator[bytes]:
    for command in (commands.MoveGroup("days", (1, 2)), commands.DrainNode(3), commands.BalanceGroups(is_dry_run=True)):
        yield b"\x00" + commands.encode_command(command)
    yield b"\x01" + commands.encode_reply(commands.CommandReply(groups={"days": (1, 2)}))
    yield b"\x02" + proposals.encode_proposal(proposals.GroupProposal("days", 1, 7, ((2, 20), (3, 30))))
    for state in (None, *_states()):
        yield b"\x03" + proposals.encode_proposal_reply(ProposalReply(False, state))


TARGETS = [
    Target("cluster-register", read_state, states),
    Target("cluster-record", read_record, record_lines),
    Target("cluster-question", read_question, questions),
]
