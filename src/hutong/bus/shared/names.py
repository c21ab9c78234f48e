"""The names of shared counters, locks and maps, and the paths of their entries, as vertx-zookeeper 4 and 5 have them.

    counters/NAME                    8 bytes (Curator's DistributedAtomicLong)
    locks/NAME/locks/..-lock-N       those that wait for the lock, in the order of their numbers
    locks/NAME/leases/..-lease-N     the one that has it (Curator's InterProcessSemaphoreMutex)
    asyncMap/NAME/KEY                a value; KEY is base64 of the key, which is encoded as a value is

Knows no ZooKeeper.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from typing import Final, TypeAlias

from hutong.bus.shared.values import decode_value, encode_value
from hutong.foundation.errors import LimitExceeded, ProtocolError, UsageError

NAME_BYTES_MAX: Final = 256
KEY_BYTES_MAX: Final = 4_096

Key: TypeAlias = str | int


def checked_name(name: str, what: str) -> str:
    """The name, which is fit for a part of a path in ZooKeeper. Raises UsageError, LimitExceeded."""
    if not name or "/" in name or name in (".", "..", "zookeeper") or not name.isprintable():
        raise UsageError(
            f"{name!r} cannot be the name of a shared {what}: ZooKeeper keeps it as a name, which has no '/' and "
            "nothing that cannot be printed. Choose another one."
        )
    # A path has no bound of its own in ZooKeeper, but it is part of every request.
    if len(name.encode()) > NAME_BYTES_MAX:
        raise LimitExceeded("name_bytes_max", NAME_BYTES_MAX)
    return name


def key_name(key: Key) -> str:
    """The name of the entry of a key. Raises TypeError, ValueError, LimitExceeded."""
    if type(key) not in (str, int):  # bool is a subclass of int, and another key in Java
        raise TypeError(f"a key of a shared map is a str or an int, not {type(key).__name__}")
    encoded = encode_value(key)  # an int as Integer or Long, which are different keys in Java
    if len(encoded) > KEY_BYTES_MAX:
        raise LimitExceeded("key_bytes_max", KEY_BYTES_MAX)
    return urlsafe_b64encode(encoded).decode()


def key_of(name: str) -> Key:
    """The key of an entry, by its name. Raises ProtocolError for another name, and for a key of another type."""
    try:
        key = decode_value(urlsafe_b64decode(name.encode("ascii")))
    except (NotBase64, UnicodeEncodeError):
        raise ProtocolError(f"{name[:100]!r} is no key of a shared map") from None
    # Java may have any key, and this map can give back only those that it takes.
    if type(key) not in (str, int):
        raise ProtocolError(f"a shared map has a key of type {type(key).__name__}: only str and int can be read")
    found: Key = key
    return found
