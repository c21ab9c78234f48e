"""The schema registry next to the log of its node: `python -m bench registry [--seconds 3]`.

Strategy: one node with a registry that has SUBJECTS subjects. Clients keep their connections open and send the next
request with the last answer; producers wait for each record. Turns alternate, and medians of their rates are shown,
with the processor time of the node for each. Producers of batches show the cost of a topic that demands schemas.
"""

import argparse
import json
import pathlib
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count

from bench.figures import memory
from bench.http_gateway import TURNS, ask, get, post, produce, show, turn
from bench.processes import ReadyProcess
from bench.raw_client import create_topic
from bench.targets import hutong_command, scratch_folder

SUBJECTS = 1_000
CONNECTIONS = (1, 16)
BATCH = 100
FREE, DEMANDING = "free", "demanding"


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench registry", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of one turn")
    parser.add_argument("--dir", help="where the data goes (default: the temporary folder)")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    options = arguments(words)
    with ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(scratch_folder(options.dir)))
        command = [*hutong_command(folder / "data"), "--schema-registry", "127.0.0.1:0"]
        node = stack.enter_context(ReadyProcess(command, log_path=str(folder / "node.log")))
        kafka, registry = node.fields["kafka"], node.fields["schema-registry"]
        create_topic(kafka, FREE, records=0)
        create_topic(kafka, DEMANDING, records=0, configs={"confluent.value.schema.validation": "true"})
        schema_id = _register(registry, f"{DEMANDING}-value", "User")
        for number in range(SUBJECTS):
            _register(registry, f"s{number}-value", f"User{number}")
        value = b"\0" + schema_id.to_bytes(4, "big") + b"x" * 95
        figures: dict[str, list[tuple[float, float]]] = {}
        for _ in range(TURNS):
            for connections in CONNECTIONS:
                asked = argparse.Namespace(seconds=options.seconds, connections=connections)
                for name, (records, work) in _jobs(kafka, registry, schema_id, value, asked).items():
                    rates = figures.setdefault(f"{name}, {connections} client{'s' * (connections > 1)}", [])
                    rates.append(turn(node.process.pid, records, work))
        show(figures, memory(node.process.pid).rss_mb)
    return 0


def _jobs(
    kafka: str, registry: str, schema_id: int, value: bytes, asked: argparse.Namespace
) -> dict[str, tuple[int, Callable[[], int]]]:
    again = post(f"/subjects/{DEMANDING}-value/versions", _body("User"))
    return {
        "register again": (1, partial(ask, registry, again, asked)),
        "get by id": (1, partial(ask, registry, get(f"/schemas/ids/{schema_id}"), asked)),
        "get latest": (1, partial(ask, registry, get(f"/subjects/{DEMANDING}-value/versions/latest"), asked)),
        "register anew": (1, partial(ask, registry, _new, asked)),
        "produce one record": (1, partial(produce, kafka, 1, asked, FREE, value)),
        f"produce {BATCH}": (BATCH, partial(produce, kafka, BATCH, asked, FREE, value)),
        f"produce {BATCH} that need schemas": (BATCH, partial(produce, kafka, BATCH, asked, DEMANDING, value)),
    }


_numbers = count()


def _new() -> bytes:
    """A request to register what no subject has."""
    number = next(_numbers)
    return post(f"/subjects/new{number}-value/versions", _body(f"New{number}"))


def _body(name: str) -> bytes:
    fields = [{"name": "name", "type": "string"}, {"name": "age", "type": ["null", "int"], "default": None}]
    return json.dumps({"schema": json.dumps({"type": "record", "name": name, "fields": fields})}).encode()


def _register(registry: str, subject: str, name: str) -> int:
    request = urllib.request.Request(f"http://{registry}/subjects/{subject}/versions", _body(name))
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request) as answer:
        return int(json.load(answer)["id"])
