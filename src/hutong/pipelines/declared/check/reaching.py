"""Problems of a pipeline that its brokers show: they must answer, and the topics must exist."""

from collections.abc import Mapping

from hutong.foundation.errors import PeerError, UsageError
from hutong.pipelines.client.cluster import Cluster, ClusterSettings, TopicMetadata
from hutong.pipelines.client.clusters import open_cluster
from hutong.pipelines.declared.check.options import reader_options, topics_of, writer_options
from hutong.pipelines.declared.declare.definition import TOPIC, Pipeline
from hutong.pipelines.declared.declare.problems import Problems, suggestion
from hutong.pipelines.option_values import cluster_of

ANSWER_MS_MAX = 5_000
"""The time for brokers to answer before a pipeline is started."""
NAMES_SHOWN_MAX = 10


class ClusterTopics:
    """The topics of each cluster, asked for once; the sentence of what went wrong where it cannot be asked."""

    def __init__(self) -> None:
        self._topics: dict[ClusterSettings, Mapping[str, TopicMetadata] | str] = {}

    def topics(self, options: Mapping[str, str]) -> Mapping[str, TopicMetadata] | str:
        waiting = {"kafka.default.api.timeout.ms": str(ANSWER_MS_MAX)}
        settings = cluster_of({**options, **waiting})
        if settings not in self._topics:
            self._topics[settings] = _ask(open_cluster(settings))
        return self._topics[settings]


def check_topics(pipeline: Pipeline, problems: Problems) -> None:
    """Note brokers that do not answer and topics that do not exist, of the sources and sinks that are sound so far."""
    reached = ClusterTopics()
    # Options of an unsound one may not be readable, and their problem would be told twice.
    unsound = [f"{problem.where}." for problem in problems.grave]
    for name, source in pipeline.sources.items():
        if source.kind == TOPIC and not _is_in(f"sources.{name}.", unsound):
            _check(f"sources.{name}", reached, reader_options(pipeline, source), topics_of(source), problems)
    for name, sink in pipeline.sinks.items():
        if sink.kind == TOPIC and not _is_in(f"sinks.{name}.", unsound):
            wanted = [] if sink.topic is None else [sink.topic]
            _check(f"sinks.{name}", reached, writer_options(pipeline, sink), wanted, problems, made=True)


def _is_in(place: str, places: list[str]) -> bool:
    return any(one.startswith(place) for one in places)


def _check(
    where: str,
    reached: ClusterTopics,
    options: Mapping[str, str],
    wanted: list[str],
    problems: Problems,
    made: bool = False,
) -> None:
    try:
        topics = reached.topics(options)
    except UsageError as error:
        problems.add(where, str(error))
        return
    if isinstance(topics, str):
        problems.add(f"{where}.bootstrap", topics, passing=True)
        return
    for topic in wanted:
        if topic in topics:
            continue
        if made:
            problems.add(f"{where}.topic", f"there is no topic {topic} yet: the broker may make it", mild=True)
            continue
        known = [name for name, one in topics.items() if not one.is_internal]
        advice = suggestion(topic, known)
        # Without a near name all would be listed.
        if not advice.startswith("; did you mean"):
            advice = suggestion(topic, known[:NAMES_SHOWN_MAX]) or "; create it first"
        problems.add(f"{where}.topic", f"there is no topic {topic} at {options['kafka.bootstrap.servers']}{advice}")


def _ask(cluster: Cluster) -> Mapping[str, TopicMetadata] | str:
    try:
        return cluster.topics()
    except PeerError as error:
        return str(error)
    finally:
        cluster.close()
