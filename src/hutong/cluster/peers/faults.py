"""Faults of links for people: each is logged once, as one sentence that says what to do.

Knows nothing of connections.
"""

import logging
from typing import Final

from hutong.cluster.peers.handshake.messages import HandshakeRefused, RefusalReason

_log = logging.getLogger("hutong.cluster.peers")

_SENTENCES: Final = {
    RefusalReason.PROTOCOL_VERSION: "no version of the protocol between nodes is common to both: {}. Upgrade nodes by "
    "one release at a time",
    RefusalReason.CLUSTER: "it belongs to another cluster: {}. Check the addresses of the nodes, and where each keeps "
    "its data",
    RefusalReason.SECRET: "its cluster secret is another one. Give all nodes the same secret",
    RefusalReason.SAME_NUMBER: "it has this node's own number, {}. Give each node a number of its own (node.id)",
    RefusalReason.OTHER_NODE: "another node answers than the one that was dialled: {}. Check the addresses of the "
    "nodes, and their numbers (node.id)",
    RefusalReason.OTHER_LIFE: "another process with its number is linked here. Stop one of the two, or give each a "
    "number of its own (node.id)",
    RefusalReason.OTHER: "it refuses, for a reason that this version does not know. Run the same version of Hutong on "
    "all nodes",
}

_SENTENCES_OF_THEIRS: Final = {
    RefusalReason.SAME_NUMBER: "it has this node's own number. Give each node a number of its own (node.id)",
    RefusalReason.OTHER_LIFE: "another process with this node's number is linked there. Stop one of the two, or give "
    "each a number of its own (node.id)",
}
"""Of refusals by the other side that would read wrongly from this one."""


def sentence_of(error: HandshakeRefused) -> str:
    """The reason and the remedy, to follow "No link with ...: "."""
    if error.is_theirs and error.reason in _SENTENCES_OF_THEIRS:
        return _SENTENCES_OF_THEIRS[error.reason]
    detail = error.detail or "it refuses this node"
    return _SENTENCES[error.reason].format(detail)


class FaultLog:
    """Remembers at most `remembered_max` faults; beyond them new ones are not logged."""

    def __init__(self, remembered_max: int) -> None:
        self._remembered_max = remembered_max
        self._seen: dict[tuple[str, str], None] = {}

    def report(self, level: int, who: str, what: str, sentence: str) -> None:
        """Log it, unless the same (by `who` and `what`) was logged before."""
        key = (who, what)
        if key in self._seen or len(self._seen) >= self._remembered_max:
            return
        self._seen[key] = None
        _log.log(level, "%s", sentence)

    def forget(self, who: str) -> None:
        """Log the faults of this one anew, should they come again."""
        for key in [key for key in self._seen if key[0] == who]:
            del self._seen[key]
