"""The names of options that the data source knows, so that a misspelt one is reported instead of ignored.

Names under `kafka.` are free: they may be any setting of Kafka's clients, most of which mean nothing here.
"""

from collections.abc import Mapping

from hutong.pipelines.declared.check.options import KAFKA_PREFIX
from hutong.pipelines.declared.declare.problems import Problems, suggestion

WRITING = ("topic", "delivery", "includeHeaders", "checkpointLocation", "queryName")


def check_names(where: str, options: Mapping[str, str], known: tuple[str, ...], problems: Problems) -> None:
    """Note what is like a known name and is none; a name that is like none may be known to a later version."""
    folded = {name.lower() for name in known}
    for name in options:
        if name.lower() in folded or name.lower().startswith(KAFKA_PREFIX):
            continue
        near = suggestion(name, known)
        if near.startswith("; did you mean"):
            problems.add(f"{where}.options.{name}", f"is no option of a topic{near}")
        else:
            problems.add(f"{where}.options.{name}", "is no option of a topic: it has no effect", mild=True)
