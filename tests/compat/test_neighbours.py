"""A small program of each neighbour against a node: what others build on Kafka's clients works unchanged.

Each is installed in an environment of its own, so that none decides the versions of another. FastStream, Quix Streams
and Celery run the programs of the recipes.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from tests.support.node import Node

ROOT: Final = Path(__file__).parents[2]
RECIPES: Final = ROOT / "docs" / "recipes.md"
UV: Final = ROOT / ".tools" / "uv"
RECIPES_BROKER: Final = "127.0.0.1:9092"
OUTPUT_SECONDS_MAX: Final = 90
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not UV.exists(), reason="uv is elsewhere here"),
]

FAUST = """
import faust

app = faust.App("billing", broker="kafka://127.0.0.1:9092", topic_partitions=1, web_enabled=False)
orders = app.topic("faust-orders", value_type=str)


@app.agent(orders)
async def bill(stream):
    async for order in stream:
        print(f"bill {order}", flush=True)


@app.task
async def first_order():
    await orders.send(value="tea")
"""
BYTEWAX = """
import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSinkMessage, operators as kafka
from bytewax.dataflow import Dataflow
from confluent_kafka import Producer

producer = Producer({"bootstrap.servers": "127.0.0.1:9092"})
producer.produce("bytewax-orders", b"tea")
producer.flush()
flow = Dataflow("billing")
orders = kafka.input("orders", flow, brokers=["127.0.0.1:9092"], topics=["bytewax-orders"], tail=False)
billed = op.map("bill", orders.oks, lambda order: KafkaSinkMessage(order.key, b"bill " + order.value))
op.inspect("seen", op.map("text", billed, lambda bill: bill.value.decode()))
kafka.output("bills", billed, brokers=["127.0.0.1:9092"], topic="bytewax-bills")
"""
AIRFLOW = """
from airflow.providers.apache.kafka.operators.consume import ConsumeFromTopicOperator
from airflow.providers.apache.kafka.operators.produce import ProduceToTopicOperator


def orders():
    yield b"k", b"tea"


def bill(message):
    print(f"bill {message.value().decode()}", flush=True)


ProduceToTopicOperator(task_id="send", topic="airflow-orders", producer_function=orders).execute({})
ConsumeFromTopicOperator(
    task_id="read", topics=["airflow-orders"], apply_function=bill, max_messages=1, commit_cadence="end_of_operator"
).execute({})
"""
AIRFLOW_CONNECTION = (
    '{"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:9092", "group.id": "billing", '
    '"auto.offset.reset": "earliest"}}'
)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """One of them: what is installed, the module that is run and how, and the lines that it prints in the end."""

    requirements: tuple[str, ...]
    module: str
    program: str | None  # None: that of the recipes
    command: tuple[str, ...]
    told: tuple[str, ...]
    first: tuple[str, ...] = ()  # run beforehand
    environment: tuple[tuple[str, str], ...] = ()


NEIGHBOURS: Final = {
    "faststream": Neighbour(
        ("faststream[cli,kafka,confluent]",), "stream", None, ("faststream", "run", "stream:app"), ("bill item='tea'",)
    ),
    "quixstreams": Neighbour(
        ("quixstreams",), "counts", None, ("python", "counts.py"), ("{'word': 'tea', 'count': 2}",)
    ),
    "faust": Neighbour(("faust-streaming",), "stream", FAUST, ("faust", "-A", "stream", "worker"), ("bill tea",)),
    "bytewax": Neighbour(
        ("bytewax[kafka]",), "stream", BYTEWAX, ("python", "-m", "bytewax.run", "stream:flow"), ("bill tea",)
    ),
    "celery": Neighbour(
        ("celery", "confluent-kafka"),
        "tasks",
        None,
        (
            "celery",
            "-A",
            "tasks",
            "worker",
            "--pool",
            "solo",
            "--loglevel",
            "INFO",
            "--without-gossip",
            "--without-mingle",
        ),
        ("succeeded in", ": 5"),
        ("python", "-c", "from tasks import add; add.delay(2, 3)"),
    ),
    "airflow": Neighbour(
        ("apache-airflow", "apache-airflow-providers-apache-kafka"),
        "operators",
        AIRFLOW,
        ("python", "operators.py"),
        ("bill tea",),
        environment=(("AIRFLOW_CONN_KAFKA_DEFAULT", AIRFLOW_CONNECTION), ("AIRFLOW__CORE__LOAD_EXAMPLES", "False")),
    ),
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node")) as running:
        yield running


def recipe(module: str) -> str:
    """The program of the recipes whose first line is the name of its file."""
    found = re.search(rf"```python\n# {module}\.py\n(.*?)```", RECIPES.read_text(), re.DOTALL)
    assert found is not None, f"the recipes have a program {module}.py"
    return found[1]


def install(folder: Path, neighbour: Neighbour) -> Path:
    """The folder of the commands of an environment with what it needs."""
    subprocess.run([str(UV), "venv", "--quiet", str(folder)], check=True)
    python = folder / "bin" / "python"
    command = [str(UV), "pip", "install", "--quiet", "--python", str(python), *neighbour.requirements]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"it cannot be installed here: {done.stderr[-300:]}")
    return python.parent


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_a_small_program_of_a_neighbour(name: str, node: Node, tmp_path: Path) -> None:
    neighbour = NEIGHBOURS[name]
    commands = install(tmp_path / "environment", neighbour)
    program = (neighbour.program or recipe(neighbour.module)).replace(RECIPES_BROKER, node.address)
    (tmp_path / f"{neighbour.module}.py").write_text(program)
    own = {name: value.replace(RECIPES_BROKER, node.address) for name, value in neighbour.environment}
    path = os.pathsep.join((str(commands), os.environ.get("PATH", os.defpath)))
    environment = {"PATH": path, "HOME": str(tmp_path), "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(tmp_path), **own}
    if neighbour.first:
        command = [str(commands / neighbour.first[0]), *neighbour.first[1:]]
        subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=OUTPUT_SECONDS_MAX)
    assert told_by(neighbour, commands, tmp_path, environment), (tmp_path / "output").read_text()[-3000:]


def told_by(neighbour: Neighbour, commands: Path, folder: Path, environment: dict[str, str]) -> bool:
    """Run the command until it has printed what it must, or ends. The output is in a file for whom it may help."""
    command = [str(commands / neighbour.command[0]), *neighbour.command[1:]]
    timed = ["timeout", "--signal=KILL", str(OUTPUT_SECONDS_MAX), *command]
    with (
        (folder / "output").open("w") as output,
        subprocess.Popen(
            timed, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            output.write(line)
            output.flush()
            if all(text in line for text in neighbour.told):
                process.send_signal(signal.SIGTERM)  # `timeout` hands it on
                break
        else:
            return False
        try:
            process.communicate(timeout=OUTPUT_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
    return True
