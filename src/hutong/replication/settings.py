"""Every bound of replication that is no part of a machine, by name."""

from dataclasses import dataclass
from typing import Final

MEBIBYTE: Final = 1024 * 1024
COMMIT_TOLD_MS: Final = 2


@dataclass(frozen=True, slots=True)
class ReplicationSettings:
    """Bounds of one replica of a partition group. Sizes in bytes, times in milliseconds."""

    lag_ms_max: int = 2_000  # for a member that does not keep up; then it leaves the set
    ship_bytes_max: int = 1 * MEBIBYTE  # of one message with chunks, or one larger chunk
    shipped_bytes_max: int = 8 * MEBIBYTE  # sent to one follower, and not held by it yet
    unstored_bytes_max: int = (
        16 * MEBIBYTE
    )  # sent to it, and not on its disk yet: less than at what its journal refuses
    ask_again_ms: int = 300  # a follower that gets no answer: its leader may not know yet that it leads
    ship_again_ms: int = 1_000  # after a read that has failed
    commit_told_ms: int = COMMIT_TOLD_MS  # for followers to hear of a commit that no chunk tells them of; 0: at once
    propose_again_ms: int = 100  # after a proposal that was refused
    copied_bytes_per_second_max: int = (
        128 * MEBIBYTE
    )  # of what is copied from disks, unless a node has a pace of its own
    paced_look_ms: int = 1_000  # while a copy waits for its pace
    file_answer_ms_max: int = 10_000  # the leader's, to a question for files
    reopen_again_ms: int = 1_000  # after a shortage of space, files or memory
