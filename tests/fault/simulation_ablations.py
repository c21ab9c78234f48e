"""Safeguards of a whole node, each with a way to switch it off, and how many seeds a simulation needs to notice.

Strategy: the patches of the journal's own histories are used again, with more of the broker, the groups and the
transactions. Seeds come in order, with faults of every kind; the first that breaks a promise counts. An exception that
nobody handles is none of them: a checker has to notice. So a safeguard that is not noticed in `SEEDS_MAX` seeds is a
hole in the simulator.

python -m tests.fault.simulation_ablations [NAME...]    prints for each how many seeds it took, and the promise
python -m tests.fault.simulation_ablations --nodes 3    the same for the rules of a cluster, in shorter seeds
                                                     (those about late words take five nodes)
"""

import argparse
import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

import pytest
from tests.fault import ablations as journal
from tests.fault import call_ablations as memory
from tests.fault import cluster_ablations as cluster
from tests.fault import group_ablations as groups
from tests.fault import rpc_ablations as calls
from tests.fault.ablation_search import Patch

from hutong.broker.fetch import fetch_pass
from hutong.broker.state.state_topic import Entry, StateTopic
from hutong.broker.topics.internal_topics import TRANSACTIONS_TOPIC
from hutong.foundation.waiting.pending import Continuation
from hutong.journal.clean.cleaner_transactions import CleanedTransactions
from hutong.journal.log import PartitionLog
from hutong.journal.read.timestamps import Found, TimestampSearch
from hutong.testing.simulation.plan.drawing import draw_plan
from hutong.testing.simulation.plan.faults import kinds_of
from hutong.testing.simulation.simulation import Simulation
from hutong.wire.kafka.batch.records import BatchHeader

SEEDS_MAX: Final = 500
MINUTES: Final = 0.3
_UNHANDLED: Final = ": Exception in "  # in the words of asyncio


class NodeSafeguard(NamedTuple):
    """A safeguard, the patch that leaves it out, of a cluster's the fault that plans need, and the plans' length."""

    sentence: str
    leave_out: Patch
    aimed_fault: str | None = None
    minutes: float = MINUTES

    def __str__(self) -> str:
        return self.leave_out.__name__


# -- state of groups, shares and topics


def answers_state_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    append_all = StateTopic.append_all

    def eager(self: StateTopic, entries: Sequence[Entry], then: Continuation[None]) -> None:
        append_all(self, entries, lambda _error: None)
        then(None)

    patch.setattr(StateTopic, "append_all", eager)


# -- transactions


def shows_open_transactions_to_committed_readers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "last_stable_offset", property(lambda self: self.high_watermark))


def names_no_aborted_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fetch_pass, "aborted_between", lambda *_: [])


def completes_transactions_before_their_decision_is_flushed(patch: pytest.MonkeyPatch) -> None:
    append_all = StateTopic.append_all

    def eager(self: StateTopic, entries: Sequence[Entry], then: Continuation[None]) -> None:
        if self.name != TRANSACTIONS_TOPIC:
            append_all(self, entries, then)
            return
        append_all(self, entries, lambda _error: None)
        then(None)

    patch.setattr(StateTopic, "append_all", eager)


# -- cleaning and look-ups


def lets_aborted_records_replace_others(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CleanedTransactions, "is_aborted", lambda *_: False)


def takes_the_first_record_of_a_batch_for_a_time(patch: pytest.MonkeyPatch) -> None:
    def first(_: TimestampSearch, header: BatchHeader, *_rest: object) -> Found:
        return header.max_timestamp_ms, header.base_offset

    patch.setattr(TimestampSearch, "_search", first)


SAFEGUARDS: Final = (
    NodeSafeguard("a position counts as flushed after fdatasync", journal.flushes_nothing),
    NodeSafeguard("an acknowledgement waits for the flush", journal.acknowledges_before_the_flush),
    NodeSafeguard("a record is shown once it is flushed", journal.shows_what_is_not_flushed),
    NodeSafeguard("sequence numbers are checked", journal.appends_repetitions),
    NodeSafeguard("checkpoints keep what producers have sent", journal.forgets_producers_at_a_start),
    NodeSafeguard("a failed flush ends the journal", journal.goes_on_after_a_failed_flush),
    NodeSafeguard("a failed flush is not tried again", journal.tries_a_failed_flush_again),
    NodeSafeguard("what a full disk refused is written later", journal.forgets_what_a_full_disk_did_not_take),
    NodeSafeguard("directories are flushed after names change", journal.does_not_flush_directories),
    NodeSafeguard("a checkpoint speaks only of what is flushed", journal.checkpoints_ahead_of_the_flush),
    NodeSafeguard("a file is flushed before it takes another's name", journal.replaces_files_by_what_is_not_flushed),
    NodeSafeguard("a file stays open until all of it is flushed", journal.closes_files_that_are_still_to_be_flushed),
    NodeSafeguard("what is given up is said in the journal", journal.says_nothing_of_what_is_given_up),
    NodeSafeguard("recovery writes again what may have been in flight", journal.trusts_what_it_read_from_memory),
    NodeSafeguard("recovery cuts off a torn tail", journal.leaves_stale_bytes_behind_the_end),
    NodeSafeguard("recovery checks the digest of each chunk", journal.believes_batches_of_another_header),
    NodeSafeguard("committed readers wait for open transactions", shows_open_transactions_to_committed_readers),
    NodeSafeguard("committed readers hear of aborted transactions", names_no_aborted_transactions),
    NodeSafeguard(
        "a transaction is completed once its decision is flushed",
        completes_transactions_before_their_decision_is_flushed,
    ),
    *(NodeSafeguard(*each) for each in groups.SAFEGUARDS),
    *(NodeSafeguard(*each) for each in calls.SAFEGUARDS),
    NodeSafeguard("a remembered call is executed once its start is stored", memory.executes_before_the_start_is_stored),
    NodeSafeguard("its repetitions wait for the first", memory.executes_what_is_in_progress),
    NodeSafeguard(
        "one that was begun before a restart is not begun again", memory.executes_again_what_was_begun_before_a_restart
    ),
    NodeSafeguard("cleaning leaves out what was aborted", lets_aborted_records_replace_others),
    NodeSafeguard("a look-up by time reads the batch", takes_the_first_record_of_a_batch_for_a_time),
    NodeSafeguard("state is answered once it is flushed", answers_state_before_the_flush),
)

CLUSTER_SAFEGUARDS: Final = tuple(NodeSafeguard(*each) for each in cluster.RULES)
"""Those of replicas; the others hold in a cluster, too."""


class Noticed(NamedTuple):
    """The seed that noticed, how many were run, and the first promise that was broken."""

    seed: int
    plans: int
    promise: str


def seeds_until_noticed(safeguard: NodeSafeguard, seeds_max: int = SEEDS_MAX, nodes: int = 1) -> Noticed | None:
    """None where none of the seeds notices. Those whose plans lack the aimed fault are passed over."""
    kinds, aimed_fault = kinds_of("all"), safeguard.aimed_fault
    plans = 0
    with pytest.MonkeyPatch.context() as patch:
        safeguard.leave_out(patch)
        for seed in range(1, seeds_max + 1):
            plan = draw_plan(seed, safeguard.minutes, kinds, nodes)
            if aimed_fault is not None and all(fault.kind != aimed_fault for fault in plan.faults):
                continue
            plans += 1
            errors = Simulation(plan).run().errors
            errors = tuple(error for error in errors if _UNHANDLED not in error)
            if errors:
                return Noticed(seed, plans, errors[0])
    return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # nodes complain, as they should
    for safeguard in SAFEGUARDS if options.nodes == 1 else CLUSTER_SAFEGUARDS:
        if options.names and str(safeguard) not in options.names:
            continue
        found = seeds_until_noticed(safeguard, options.seeds, options.nodes)
        noticed = "not noticed"
        if found is not None:
            noticed = f"by seed {found.seed}, plan {found.plans}: {found.promise.splitlines()[0]}"
        print(f"{safeguard.sentence:60} {safeguard!s:45} {noticed}", flush=True)


if __name__ == "__main__":
    main()
