"""The process: its folder, its threads, its loops."""

from dataclasses import dataclass
from pathlib import Path

from hutong.server.configuration.sections.facts import HOUR_MS, INT32_MAX, MINUTE_MS, SECOND_MS, setting


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The process and its folder."""

    id: int = setting(1, "Number of this node in its cluster.", "node.id", minimum=0, maximum=INT32_MAX)
    data_dir: Path = setting(Path("hutong-data"), "Folder that holds everything this node keeps.", "log.dirs")
    worker_threads: int = setting(
        4, "Threads for work that blocks: fsync, disk reads, compression.", "num.io.threads", minimum=1, maximum=256
    )
    shutdown_timeout_ms: int = setting(
        5 * SECOND_MS, "How long a stopping node lets open requests finish.", minimum=0, maximum=HOUR_MS
    )
    log_level: str = setting(
        "info", "Least level of the messages on standard error.", choices=("debug", "info", "warning", "error")
    )


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """Event loops and worker threads of the event bus, and when a thread counts as blocked."""

    event_loops: int = setting(
        1, "Event loops; the node itself is on the first, verticles are dealt over all.", minimum=1, maximum=1024
    )
    worker_threads: int = setting(
        20, "Threads for handlers that block, started when they are needed.", minimum=1, maximum=10_000
    )
    blocked_loop_ms: int = setting(2 * SECOND_MS, "A loop that is blocked for so long is warned of.", minimum=1)
    blocked_worker_ms: int = setting(MINUTE_MS, "A worker that takes so long is warned of.", minimum=1)
    blocked_stack_ms: int = setting(5 * SECOND_MS, "From then on the warning shows the stack.", minimum=1)
