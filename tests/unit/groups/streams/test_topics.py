"""What a topology comes to with the topics that exist."""

from hutong.groups.streams.topics import ConfiguredTopology, StatusCode, configure
from hutong.groups.streams.topology import InternalTopic, Subtopology, Topology

TASKS_MAX = 100


def configured(*subtopologies: Subtopology, **topics: int) -> ConfiguredTopology:
    return configure(Topology(0, subtopologies), topics.get, TASKS_MAX)


def test_a_repartition_topic_is_as_wide_as_the_largest_topic_behind_it() -> None:
    found = configured(
        Subtopology("0", source_topics=("a", "b"), sink_topics=("r",)),
        Subtopology("1", repartition_topics=(InternalTopic("r"),), sink_topics=("s",)),
        Subtopology("2", repartition_topics=(InternalTopic("s"),), changelog_topics=(InternalTopic("c"),)),
        a=2,
        b=5,
    )
    assert found.task_counts == {"0": 5, "1": 5, "2": 5}
    assert {topic.name: topic.partition_count for topic in found.to_create} == {"r": 5, "s": 5, "c": 5}


def test_a_fixed_number_of_partitions_stays() -> None:
    found = configured(
        Subtopology("0", source_topics=("a",), sink_topics=("r",)),
        Subtopology("1", repartition_topics=(InternalTopic("r", 3, 2, (("k", "v"),)),)),
        a=8,
    )
    assert found.task_counts == {"0": 8, "1": 3}
    assert [(each.partition_count, each.replication_factor, each.configs) for each in found.to_create] == [
        (3, 2, (("k", "v"),))
    ]


def test_copartitioned_topics_have_the_same_number() -> None:
    joining = Subtopology(
        "1", source_topics=("b",), repartition_topics=(InternalTopic("r"),), copartition_groups=(("b", "r"),)
    )
    writing = Subtopology("0", source_topics=("a",), sink_topics=("r",))
    assert configured(writing, joining, a=2, b=6).partition_counts["r"] == 6
    both = Subtopology("0", source_topics=("a", "b"), copartition_groups=(("a", "b"),))
    problem = configured(both, a=2, b=6).problem
    assert problem is not None
    assert problem.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert problem.detail == "Following topics do not have the same number of partitions: [a:2, b:6]"


def test_an_internal_topic_of_another_size_is_refused() -> None:
    found = configured(Subtopology("0", source_topics=("a",), changelog_topics=(InternalTopic("c"),)), a=2, c=1)
    assert found.problem is not None
    assert found.problem.detail == "Existing topic c has different number of partitions: expected 2, found 1"


def test_a_changelog_that_is_a_source_is_not_created() -> None:
    found = configured(Subtopology("0", source_topics=("a",), changelog_topics=(InternalTopic("a"),)), a=2)
    assert found.is_ready
    assert found.task_counts == {"0": 2}


def test_too_many_tasks_are_a_problem_of_the_topics() -> None:
    found = configured(Subtopology("0", source_topics=("a",)), a=TASKS_MAX + 1)
    assert found.problem is not None
    assert "at most 100" in found.problem.detail


def test_many_missing_topics_are_told_in_few_words() -> None:
    found = configured(Subtopology("0", source_topics=tuple(f"t{number:02}" for number in range(30))))
    assert found.problem is not None
    assert found.problem.detail.endswith("t19 and 10 additional topics are missing.")
