"""A request of ZooKeeper's that kazoo lacks: create a container, which goes by itself when its last child has gone.

Strategy: vertx-zookeeper makes the parents of registrations so, and addresses may be many and short-lived. The request
is that of `create` with another number; of the answer kazoo's own reader takes the path and leaves the rest.

Knows nothing of what is created.
"""

from typing import Any, Final

from kazoo.protocol.serialization import Create

_CREATE_CONTAINER: Final = 19  # ZooDefs.OpCode.createContainer
_CONTAINER: Final = 4  # CreateMode.CONTAINER


class _CreateContainer(Create):  # type: ignore[misc]  # kazoo has no types
    type = _CREATE_CONTAINER


def create_container_async(client: Any, path: str, acl: Any) -> Any:
    """Begin to create it; the result is kazoo's, as that of `create_async`. Servers have it from 3.5.3 on."""
    result = client.handler.async_result()
    client._call(_CreateContainer(client.chroot + path, b"", acl, _CONTAINER), result)
    return result
