"""A node in a container, for suites that use `testcontainers` (https://testcontainers-python.readthedocs.io).

It is for what a node in the test's process cannot be: another program, limited and stopped by itself, reached by
clients in other containers or languages. It needs the package `testcontainers` and the image of `deploy/Dockerfile`.
"""

from collections.abc import Mapping
from typing import Any, Self

from hutong.foundation.errors import UsageError

try:
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy
except ModuleNotFoundError as missing:
    raise UsageError("HutongContainer needs testcontainers: pip install testcontainers.") from missing

KAFKA_PORT = 9092
METRICS_PORT = 9464
ADVERTISED_FILE = "/tmp/advertised"
READY_SECONDS_MAX = 60

# The engine chooses the port on the host when the container starts, and clients must be given that one (Kafka's
# metadata name each node's address). So the node starts once the file with the address is there.
_START = (
    f"while [ ! -s {ADVERTISED_FILE} ]; do sleep 0.05; done; "
    f'HUTONG_KAFKA_ADVERTISED="$(cat {ADVERTISED_FILE})" exec hutong serve'
)


class HutongContainer(DockerContainer):
    """A node of its own container, a context manager as each container of `testcontainers`.

    `image` names what `docker build -f deploy/Dockerfile -t hutong .` has made. `settings` are those that
    `hutong config` lists, such as `{"log.retention_ms": "1000"}`. `options` go to `DockerContainer`. Records last as
    long as the container, unless a volume is mapped to `/data`.
    """

    def __init__(self, image: str = "hutong", *, settings: Mapping[str, str] | None = None, **options: Any) -> None:
        # The image's entry point is `hutong`; a shell has to wait before it.
        super().__init__(image, entrypoint=["/bin/sh", "-c"], **options)
        self.with_command([_START])
        self.with_exposed_ports(KAFKA_PORT, METRICS_PORT)
        for name, value in (settings or {}).items():
            self.with_env(f"HUTONG_{name.replace('.', '_').upper()}", value)

    def start(self) -> Self:
        """Start the container and wait until the node takes connections. Raises TimeoutError with the node's log."""
        super().start()
        address = self.get_bootstrap_server()
        self.copy_into_container(address.encode(), ADVERTISED_FILE)
        ready = LogMessageWaitStrategy(r"^ready kafka=").with_startup_timeout(READY_SECONDS_MAX)
        ready.wait_until_ready(self)
        return self

    def get_bootstrap_server(self) -> str:
        """`HOST:PORT` for `bootstrap.servers`: the name that the Kafka and Redpanda containers of the package have."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(KAFKA_PORT)}"

    def get_metrics_url(self) -> str:
        """The address of the node's metrics page, for Prometheus."""
        return f"http://{self.get_container_host_ip()}:{self.get_exposed_port(METRICS_PORT)}/metrics"
