"""`hutong serve`: run a node until a signal stops it.

Strategy: argparse instead of the command framework of the other commands, and no import that serving does not need,
because the time from typing the command to the first acknowledged record is a promise.

Knows nothing of what a node is made of: `hutong.server.serving` does.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from hutong.foundation.errors import ExitCode, UsageError
from hutong.server.configuration.loader import load
from hutong.server.configuration.settings import Address, Settings

if TYPE_CHECKING:
    from hutong.console.outer_ports import OuterPorts
    from hutong.server.broker.system_ports import SystemPorts
    from hutong.server.composition import NodeAddresses

SWITCH_INTERVAL_S = 0.0005
"""Seconds that a thread waits after a flush for a busy loop to release the interpreter, instead of Python's own 5 ms.

Chosen by running both: 6 to 15 % more persisted requests, and `bench backlog` a quarter off the tail's p99.
"""
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
DIRECT_FLAGS = {  # option of the command -> the setting it is short for
    "data_dir": "node.data_dir",
    "kafka": "kafka.listen",
    "kafka_protocol": "kafka.protocol",
    "advertised": "kafka.advertised",
    "rocketmq": "rocketmq.listen",
    "http": "http.listen",
    "schema_registry": "schema_registry.listen",
    "console": "console.listen",
    "metrics": "metrics.listen",
    "tcp_bridge": "tcp_bridge.listen",
    "sockjs": "sockjs.listen",
    "log_level": "node.log_level",
    "cluster": "cluster.coordinator",
    "node_id": "node.id",
    "rack": "cluster.rack",
    "cluster_listen": "cluster.listen",
    "cluster_secret": "cluster.secret_file",
}


def serve(arguments: Sequence[str], ports: "SystemPorts | None" = None) -> int:
    """Run a node with these command-line arguments; returns the exit code once it has stopped cleanly.

    It touches this machine, unless `ports` are others. Prints one line on standard output when clients are accepted.
    Raises UsageError for a wrong option, setting or path, and StorageError where the data folder cannot be used.
    """
    parser = _parser()
    try:
        options, unknown = parser.parse_known_args(arguments)
    except SystemExit as end:  # argparse ends the process itself after printing the help
        return int(end.code or 0)
    if unknown:
        raise parser.unknown(unknown)
    # An empty value is none at all elsewhere, and a variable that is not set would make a node alone of this one.
    if options.cluster is not None and not options.cluster.strip():
        raise UsageError("--cluster is empty; write --cluster zk://HOST:PORT/PATH, or leave it out.", ExitCode.USAGE)
    settings = load(options.config, flags=flags_of(options)).settings
    if options.bridge_permit and not (settings.tcp_bridge.listen or settings.sockjs.listen):
        raise UsageError(
            "--bridge-permit opens no bridge; add --tcp-bridge HOST:PORT or --sockjs HOST:PORT.", ExitCode.USAGE
        )
    _run(settings, as_json=options.json, ports=ports)
    return 0


def flags_of(options: argparse.Namespace) -> dict[str, str | tuple[str, ...]]:
    """`section.key` -> text, from `--set` and the options that stand for one setting. Raises UsageError."""
    flags: dict[str, str | tuple[str, ...]] = {}
    for assignment in options.set:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise UsageError(f"--set {assignment} has no value; write --set section.key=value.", ExitCode.USAGE)
        flags[name.strip()] = value
    given = {name: getattr(options, option, None) for option, name in DIRECT_FLAGS.items()}
    permits = _permits(getattr(options, "bridge_permit", None) or ())
    lists = {"listener": "kafka.listeners", "allow_plain": "security.allow_plain"}
    several: dict[str, str | tuple[str, ...]] = {
        name: tuple(getattr(options, option)) for option, name in lists.items() if getattr(options, option, None)
    }
    return flags | several | {name: value for name, value in given.items() if value is not None} | permits


def _permits(assignments: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The bridges' permissions, where some are given: they take the place of the file's, direction by direction."""
    permits: dict[str, tuple[str, ...]] = {}
    for assignment in assignments:
        direction, equals, pattern = assignment.partition("=")
        if direction not in ("in", "out") or not equals or not pattern:
            raise UsageError(
                f"--bridge-permit {assignment} names no direction; write --bridge-permit in=REGEX for what clients may "
                "send to, or out=REGEX for what they may listen at.",
                ExitCode.USAGE,
            )
        name = f"bridge.permit_{direction}"
        permits[name] = (*permits.get(name, ()), pattern)
    return permits


def ready_line(listeners: Mapping[str, Address | str | None], pid: int, *, as_json: bool) -> str:
    """The line by which a supervisor learns where clients may connect, by protocol; those not opened are None."""
    opened = {name: str(address) for name, address in listeners.items() if address is not None}
    if as_json:
        return json.dumps({"ready": True, **opened, "pid": pid})
    return " ".join(("ready", *(f"{name}={address}" for name, address in opened.items()), f"pid={pid}"))


class _ServeParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; `hutong serve --help` lists the options.", ExitCode.USAGE)

    def unknown(self, words: Sequence[str]) -> UsageError:
        """The error for words that are no options, with the option that the first one may have meant."""
        from hutong.cli.nearest import did_you_mean  # needed only to say what went wrong

        name = words[0].partition("=")[0]
        near = did_you_mean(name, self._option_string_actions) if name.startswith("-") else ""
        advice = f"{near or ';'} `hutong serve --help` lists the options."
        return UsageError(f"unrecognized arguments: {' '.join(words)}{advice}", ExitCode.USAGE)


def _parser() -> _ServeParser:
    parser = _ServeParser(
        prog="hutong serve",
        description="Run a node until it is stopped (SIGTERM, or Ctrl-C). Logs go to standard error.",
        epilog="`hutong config` lists every setting that --set takes.",
    )
    parser.add_argument("--data-dir", metavar="DIR", help="folder that holds everything this node keeps")
    parser.add_argument("--kafka", metavar="HOST:PORT", help="where Kafka clients connect; port 0: any free one")
    parser.add_argument("--kafka-protocol", metavar="PROTOCOL", help="PLAINTEXT (unless given), SSL, SASL_SSL, ...")
    parser.add_argument(
        "--listener",
        metavar="NAME://HOST:PORT",
        action="append",
        default=[],
        help="several listeners in the place of --kafka, as SASL_SSL://0.0.0.0:9093",
    )
    parser.add_argument(
        "--allow-plain",
        metavar="KIND",
        action="append",
        default=[],
        help="open this to the network without TLS: kafka, rocketmq, http, schema-registry, metrics, tcp-bridge, ...",
    )
    parser.add_argument("--advertised", metavar="HOST:PORT", help="the address that clients use, where it differs")
    parser.add_argument("--rocketmq", metavar="HOST:PORT", help="where RocketMQ's clients find name server and broker")
    parser.add_argument("--http", metavar="HOST:PORT", help="where records, topics and groups are served by HTTP; off")
    parser.add_argument("--schema-registry", metavar="HOST:PORT", help="where Avro, JSON and Protobuf schemas are kept")
    parser.add_argument("--console", metavar="HOST:PORT", help="where a browser finds the console; off")
    parser.add_argument("--metrics", metavar="HOST:PORT", help="where /metrics, /healthz and /readyz are served; off")
    parser.add_argument("--tcp-bridge", metavar="HOST:PORT", help="where Vert.x's TCP event-bus clients connect; off")
    parser.add_argument("--sockjs", metavar="HOST:PORT", help="where browsers connect to the event bus; off")
    parser.add_argument(
        "--bridge-permit",
        metavar="in=REGEX|out=REGEX",
        action="append",
        default=[],
        help="addresses that clients of the bridges may send to (in) or listen at (out); none unless given",
    )
    parser.add_argument(
        "--cluster", metavar="zk://HOST:PORT,.../PATH", help="the ZooKeeper of a cluster to be a node of"
    )
    parser.add_argument("--node-id", metavar="N", help="the number of this node in its cluster; 1 unless given")
    parser.add_argument("--rack", metavar="NAME", help="rack of this node in its cluster")
    parser.add_argument("--cluster-listen", metavar="HOST:PORT", help="where the other nodes connect")
    parser.add_argument("--cluster-secret", metavar="FILE", help="the secret that all nodes of the cluster share")
    parser.add_argument("--config", metavar="FILE", type=Path, help="settings as TOML")
    parser.add_argument("--set", metavar="SECTION.KEY=VALUE", action="append", default=[], help="any other setting")
    parser.add_argument("--log-level", metavar="LEVEL", help="debug, info, warning or error")
    parser.add_argument("--json", action="store_true", help="print the ready line as a JSON object")
    return parser


def outer_ports(settings: Settings) -> "OuterPorts | None":
    """The ports of the console, where the settings ask for one."""
    if settings.console.listen is None:
        return None
    from hutong.cli.cluster.operator_requests import ClientOperatorRequests
    from hutong.console.outer_ports import OuterPorts

    pipelines = None
    if settings.console.pipelines is not None:
        from hutong.cli.node.pipeline_folders import FolderPipelines  # few nodes show pipelines

        pipelines = FolderPipelines(settings.console.pipelines)
    return OuterPorts(pipelines, ClientOperatorRequests())


def _run(settings: Settings, *, as_json: bool, ports: "SystemPorts | None") -> None:
    import asyncio
    import logging

    from hutong.runtime.loops.loops import new_event_loop
    from hutong.server.broker.data.open_files import raise_limit
    from hutong.server.serving import serve_node

    sys.setswitchinterval(SWITCH_INTERVAL_S)  # the process is ours here; an embedded node leaves its host's alone
    raise_limit()
    logging.basicConfig(level=settings.node.log_level.upper(), stream=sys.stderr, format=LOG_FORMAT)

    def ready(info: "NodeAddresses") -> None:
        opened = info.listeners
        is_plain = len(opened) == 1 and opened[0].protocol == "PLAINTEXT"
        listeners = {
            "kafka": info.kafka,
            "listeners": None if is_plain else ",".join(map(str, opened)),
            "rocketmq": info.rocketmq,
            "http": info.http,
            "schema-registry": info.schema_registry,
            "console": info.console,
            "metrics": info.metrics,
            "tcp-bridge": info.tcp_bridge,
            "sockjs": info.sockjs,
        }
        print(ready_line(listeners, os.getpid(), as_json=as_json), flush=True)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve_node(settings, ready=ready, ports=ports, outer=outer_ports(settings)))
