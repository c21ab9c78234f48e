"""kafkajs, franz-go, sarama and Java's clients at a secured node: programs that do jobs line by line.

The programs are built, and their packages fetched, as those of the other compatibility tests are.
"""

import os
import pathlib
from collections.abc import Callable
from typing import Final

from tests.compat.secured.jobs import Driver, Job
from tests.compat.secured.lines import Lines
from tests.support.golang import kafka_clients
from tests.support.kafka_tools import QUICK_START, peer_jars
from tests.support.maven import java_program
from tests.support.npm import node_modules

HERE: Final = pathlib.Path(__file__).parent
KAFKAJS: Final = "2.2.4"
JAVA: Final = "4.3.0"


def kafkajs(stop_later: Callable[[Lines], Lines]) -> Driver:
    modules = node_modules(f"kafkajs-{KAFKAJS}", f"kafkajs@{KAFKAJS}")
    environment = {**os.environ, "NODE_PATH": str(modules), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    lines = stop_later(Lines(lambda: ["node", str(HERE / "kafkajs.js")], environment))
    return lambda job: lines.ask({**job.access.words(), **job.words()})


def go(client: str, stop_later: Callable[[Lines], Lines]) -> Driver:
    program = kafka_clients()
    lines = stop_later(Lines(lambda: [str(program), "secured"]))
    return lambda job: lines.ask({"client": client, **job.access.words(), **job.words()})


def java(stop_later: Callable[[Lines], Lines]) -> Driver:
    program = java_program(
        f"kafka-clients-{JAVA}",
        HERE / "KafkaSecured.java",
        f"org.apache.kafka:kafka-clients:{JAVA}",
        "org.slf4j:slf4j-nop:1.7.36",
        held=peer_jars(),
        options=QUICK_START,
    )
    lines = stop_later(Lines(lambda: program))

    def attempt(job: Job) -> str:
        return lines.ask({**job.access.java(), **job.words()})

    return attempt
