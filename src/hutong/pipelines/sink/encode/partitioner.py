"""Assigns partitions as the Java client does, so that equal keys of all producers share a partition.

A record with a key goes by murmur2 of the key; one without sticks, with all the others of its Arrow batch, to one
partition, the next batch's to the next (KIP-480: few large batches beat many small ones).
"""

from hutong.pipelines.native import BytePointer, Int32s, compiled, pointer_to
from hutong.pipelines.sink.encode.rows import BinaryRows

MURMUR2_SEED = 0x9747B28C
MURMUR2_M = 0x5BD1E995
MASK = 0xFFFF_FFFF


@compiled
def assign_partitions(keys: BinaryRows, partition_count: int, sticky: int, chosen: Int32s) -> None:
    """Replace every negative number in `chosen` (one per row) by the partition of the row's key, or by `sticky`."""
    content, ends, valid = pointer_to(keys.content), pointer_to(keys.ends), pointer_to(keys.valid)
    partitions = pointer_to(chosen)
    for row in range(chosen.shape[0]):
        if partitions[row] >= 0:
            continue
        if not keys.present or valid[row] == 0:
            partitions[row] = sticky
        else:
            digest = murmur2(content, int(ends[row]), int(ends[row + 1]))
            partitions[row] = (digest & 0x7FFF_FFFF) % partition_count


@compiled
def murmur2(data: BytePointer, start: int, end: int) -> int:
    """The hash of `data[start:end]` by which the Java client chooses partitions, as an unsigned 32-bit number."""
    length = end - start
    digest = (MURMUR2_SEED ^ length) & MASK
    position = start
    while end - position >= 4:
        word = int(data[position]) | int(data[position + 1]) << 8
        word |= int(data[position + 2]) << 16 | int(data[position + 3]) << 24
        word = (word * MURMUR2_M) & MASK
        word = ((word ^ (word >> 24)) * MURMUR2_M) & MASK
        digest = ((digest * MURMUR2_M) & MASK) ^ word
        position += 4
    if position < end:
        tail = 0
        for index in range(end - position):
            tail |= int(data[position + index]) << (8 * index)
        digest = ((digest ^ tail) * MURMUR2_M) & MASK
    digest = ((digest ^ (digest >> 13)) * MURMUR2_M) & MASK
    return digest ^ (digest >> 15)
