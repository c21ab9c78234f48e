"""A client of kazoo's, made by our settings: TLS, credentials, retries, and the session's time as it was negotiated.

Knows nothing of what is asked of ZooKeeper.
"""

import contextlib
import logging
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from hutong.cluster.coordinator.zookeeper.address import ZooKeeperAddress
from hutong.cluster.coordinator.zookeeper.settings import ZooKeeperSettings
from hutong.foundation.errors import Expired
from hutong.runtime.threads.bounded import call_within

FAILURES: Final = (KazooException, KazooTimeoutError)
"""Everything that a call of kazoo's raises on purpose."""
RETRY_DELAY_S: Final = 0.1
RETRY_DELAY_S_MAX: Final = 0.25
# kazoo warns of each attempt to connect. The session says in its own words what matters.
_kazoo_log = logging.getLogger("hutong.cluster.zookeeper")
_kazoo_log.setLevel(logging.ERROR)


class ZooKeeperClient(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """kazoo's client, which also says how long its session is and who may see what it writes."""

    def __init__(self, address: ZooKeeperAddress, settings: ZooKeeperSettings) -> None:
        tls = settings.tls
        super().__init__(
            hosts=address.hosts,
            timeout=settings.session_ms / 1_000,
            auth_data=[("digest", settings.user)] if settings.user else None,
            connection_retry={"max_tries": -1, "delay": RETRY_DELAY_S, "max_delay": RETRY_DELAY_S_MAX},
            logger=_kazoo_log,
            use_ssl=tls is not None,
            check_hostname=tls is not None,
            ca=tls and tls.ca and str(tls.ca),
            certfile=tls and tls.certificate and str(tls.certificate),
            keyfile=tls and (tls.key or tls.certificate) and str(tls.key or tls.certificate),
        )
        self.own_acl = CREATOR_ALL_ACL if settings.user else OPEN_ACL_UNSAFE
        self.negotiated_ms = settings.session_ms
        # kazoo keeps the negotiated time in a local variable. It returns two thirds of it, in milliseconds.
        connect = self._connection._connect

        def note_negotiated(*arguments: Any) -> Any:
            read_timeout_ms, connect_timeout_ms = connect(*arguments)
            self.negotiated_ms = round(read_timeout_ms * 1.5)
            return read_timeout_ms, connect_timeout_ms

        self._connection._connect = note_negotiated

    @property
    def session_id(self) -> int | None:
        client_id = self.client_id
        return client_id[0] if client_id else None

    @property
    def has_ended(self) -> bool:
        """True where kazoo tries no more by itself."""
        return self.client_state in ("CLOSED", "AUTH_FAILED")

    def end(self) -> None:
        """Close the session and end kazoo's threads. Blocks, for a session's time where nobody answers."""
        # kazoo waits for its connecting thread, and that one for the machine's resolver: up to 20 s for a name that no
        # DNS server knows. The session expires by itself then, as after a crash.
        with contextlib.suppress(Expired):
            call_within(self.negotiated_ms, self._end, "zookeeper-end")

    def _end(self) -> None:
        # The session's own end may come first, and close what wakes the connection's thread.
        with contextlib.suppress(OSError):
            self.stop()
        self.close()
