"""Leader epochs: where each ends, and what that says of another replica's stream."""

from hypothesis import given
from hypothesis import strategies as st

from hutong.journal.append.leader_epochs import NOBODY, EpochStart, LeaderEpochs


def test_the_end_of_an_epoch_is_the_start_of_the_next() -> None:
    epochs = LeaderEpochs([EpochStart(3, 0), EpochStart(5, 100), EpochStart(6, 250)])
    assert epochs.end_of(3, 300) == (3, 100)
    assert epochs.end_of(4, 300) == (3, 100), "of one that is not here, the one before it"
    assert epochs.end_of(6, 300) == epochs.end_of(9, 300) == (6, 300)
    assert epochs.end_of(2, 300) == (-1, 0)
    assert LeaderEpochs().end_of(2, 300) == (-1, 0)


def test_only_the_first_chunk_of_an_epoch_counts() -> None:
    epochs = LeaderEpochs()
    assert epochs.last == -1
    for epoch, position in ((1, 0), (1, 50), (2, 90), (2, 120)):
        epochs.note(epoch, position, node=epoch + 10)
    assert epochs.starts() == [EpochStart(1, 0, 11), EpochStart(2, 90, 12)]
    assert (epochs.node_of(2), epochs.node_of(7)) == (12, NOBODY)


@given(st.lists(st.integers(1, 5), max_size=6), st.data())
def test_the_end_of_the_common_part_is_found(lengths: list[int], data: st.DataObject) -> None:
    """Any two streams in which one node alone writes in an epoch: the questions of KIP-279 find where they part."""
    shared = data.draw(st.integers(0, len(lengths)))
    common: list[EpochStart] = []
    position = 0
    for epoch, length in enumerate(lengths[:shared]):
        common.append(EpochStart(epoch, position))
        position += length
    streams: list[tuple[LeaderEpochs, int]] = []
    for _ in range(2):
        starts, end = list(common), position
        # Each goes on in epochs that the other does not have.
        for epoch in sorted(data.draw(st.sets(st.integers(10, 20), max_size=3))):
            starts.append(EpochStart(2 * epoch + len(streams), end))
            end += data.draw(st.integers(1, 5))
        streams.append((LeaderEpochs(starts), end))
    (follower, follower_end), (leader, leader_end) = streams
    epoch, cut = follower.last, follower_end
    for _ in range(10):
        theirs, their_end = leader.end_of(epoch, leader_end)
        ours, our_end = follower.end_of(theirs, follower_end)
        cut = min(our_end, their_end)
        if ours == theirs:
            break
        epoch = ours
    assert cut == position


def test_an_epoch_that_has_no_chunk_before_a_position_is_passed_over() -> None:
    epochs = LeaderEpochs([EpochStart(3, 0), EpochStart(5, 900)])

    assert [epochs.last_before(position) for position in (0, 1, 900, 901)] == [-1, 3, 3, 5]
