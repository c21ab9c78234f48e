"""What Kafka's tools print about several nodes, in the words that they have for one.

Strategy: what a tool says of each replica or broker is the same for all of them, so one stands for the others, under
the number 1. Whoever leads is 1, too. Blocks of commands that only one node can obey are taken out of the kept text.

Knows nothing of how a command is run.
"""

import re
from collections.abc import Collection
from typing import Final

_BROKER: Final = r"\{\"broker\":\d+,\"logDirs\":\[\{.*?\}\]\}"
_VOTER: Final = r"\{\"id\": N(, \"endpoints\": \[[^\]]*\])?\}"  # of a node that is down the address is not known
_CHANGES: Final = (
    (r"Leader: \d+", "Leader: 1"),
    (r"\b(Replicas|Isr): \d+(,\d+)*", r"\1: 1"),
    (r"ReplicationFactor: \d+", "ReplicationFactor: 1"),
    (r"from brokers \d+(,\d+)*", "from brokers 1"),
    (rf"({_BROKER})(,{_BROKER})+", r"\1"),
    (r"\{\"broker\":\d+,", '{"broker":1,'),
    (r"\bbroker \d+", "broker 1"),
    (r"(--entity-type brokers --entity-name|--broker-id) [1-6]\b", r"\1 1"),
    (rf"{_VOTER}(, {_VOTER})*", '{"id": N, "endpoints": ["ADDRESS"]}'),
    (r"^MaxFollowerLagTimeMs: -N$", "MaxFollowerLagTimeMs: N"),  # -1: since the node was up
    (r"^\d+( HOST PORT \S+ unfenced broker)$", r"1\1"),
    (r"\(id: \d+ rack:", "(id: 1 rack:"),
    (r"^(transaction) \d+ (ID \w+)$", r"\1 1 \2"),
    (r"^(ID \d+) \d+ (\d+ TIME)", r"\1 0 \2"),  # the epoch of who coordinates transactions begins with 1
)


def of_one_node(text: str) -> str:
    """The transcript as if there was one node."""
    for pattern, words in _CHANGES:
        text = re.sub(pattern, words, text, flags=re.MULTILINE)
    return "\n\n".join(_without_repetition(block) for block in text.split("\n\n"))


def without_commands(text: str, numbers: Collection[int]) -> str:
    """The transcript without the blocks of these commands, which are counted from 0."""
    blocks = re.split(r"(?m)^(?=\$ )", text)[1:]
    return "".join(block for number, block in enumerate(blocks) if number not in numbers)


def _without_repetition(block: str) -> str:
    """The lines of each broker once: each begins with a line of its own."""
    parts = re.split(r"(?m)^(?=HOST:PORT \(id: |1 HOST PORT )", block)
    kept: list[str] = []
    for part in parts:
        if part.rstrip(",\n") not in [each.rstrip(",\n") for each in kept]:
            kept.append(part)
    return "".join(kept).rstrip("\n")
