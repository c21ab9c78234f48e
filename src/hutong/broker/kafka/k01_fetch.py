"""Fetch (key 1, versions 4-18): read record batches from offsets on, waiting for more where there is too little.

An offset inside a batch returns the whole batch. The first partition that has data returns at least one batch, even
over the limits (KIP-74). An error, or enough bytes, is answered at once; everything else waits for data or
`max_wait_ms`. A partition that does not exist does not end the wait while there are others. From 7 a client may ask
for an incremental session (KIP-227, `fetch.incremental_fetch`); session id 0 in the answer declines. From 13 topics
come by id (KIP-516). From 11 a leader names a follower in the client's rack, and followers in sync serve consumers
(KIP-392, `fetch.nearest_replica`).

`fetch.pending_fetch` makes passes over the partitions and waits between them; `fetch.fetch_pass` reads. Data that is no
longer in memory is read from disk in fair turns (`fetch.disk_reads`) before the answer leaves.

A committed reader (isolation level 1) gets records before the last stable offset, with the list of transactions that
were aborted there: the client leaves their records out. Other readers get null instead of the list, as from Kafka.

Every fetch checks READ again, in a session too, so a revoked right takes effect on the next pass.

A damaged batch is answered with CORRUPT_MESSAGE, by which Java's and librdkafka's consumers report their position to
the application, so that it can decide to skip the batch. A reader that the node has no room for gets no records, no
error and a throttle time (KIP-219).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.broker.fetch import incremental_fetch
from hutong.broker.fetch.pending_fetch import PendingFetch
from hutong.broker.fetch.session_table import NO_SESSION_EPOCH, NO_SESSION_ID
from hutong.broker.handling.context import RequestContext
from hutong.foundation.waiting.pending import Pending
from hutong.wire.kafka.apis.k01_fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from hutong.broker.fetch.parts import FetchParts

API_KEY = 1


def handle(request: FetchRequest, context: RequestContext[FetchParts]) -> FetchResponse | Pending[FetchResponse]:
    if request.session_epoch == NO_SESSION_EPOCH and request.session_id == NO_SESSION_ID:
        return PendingFetch(request, context, None).begin_fetch()
    session_fetch = incremental_fetch.begin_session_fetch(request, context)
    return (
        session_fetch
        if isinstance(session_fetch, FetchResponse)
        else PendingFetch(request, context, session_fetch).begin_fetch()
    )
