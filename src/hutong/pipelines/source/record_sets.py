"""Record sets: results of a fetch, inputs of a decoder. Knows nothing of either."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from hutong.wire.kafka.apis.k01_fetch import AbortedTransaction

if TYPE_CHECKING:  # it brings numba, which the driver's planning does without
    from hutong.pipelines.source.decode.index import BatchIndex


class RecordSet(NamedTuple):
    """Whole batches of one fetch, and the transactions that were aborted there. `records` holds until the next one."""

    records: memoryview
    batches: "BatchIndex"
    aborted: Sequence[AbortedTransaction]
