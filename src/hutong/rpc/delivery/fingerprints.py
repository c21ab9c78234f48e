"""Fingerprints of calls: the way to tell a repeated request from another call under the same request id.

Strategy: a digest of the arguments as JSON has them, with sorted names. So it is the same in every process and over
every transport, for any order of the caller's names. Names and values count as the caller sent them; defaults do not,
so a service that gains a parameter still knows earlier calls.

Knows no store.
"""

from hashlib import blake2b
from typing import Final

import msgspec

from hutong.rpc.call import IncomingCall
from hutong.rpc.delivery.messages import Fingerprint
from hutong.rpc.errors import BadArguments

DIGEST_BYTES: Final = 16
"""A caller that looks for collisions harms only itself: its session is its own."""
_ENCODER: Final = msgspec.msgpack.Encoder(order="sorted")


def fingerprint_of(call: IncomingCall) -> Fingerprint:
    """The fingerprint of a call. Raises BadArguments for arguments that JSON cannot say."""
    given = call.raw_arguments()
    try:
        plain = msgspec.to_builtins({} if given is None else given, str_keys=True, order="sorted")
        encoded = _encoded(plain)
    except (TypeError, ValueError, RecursionError) as error:  # among them lone surrogates
        raise BadArguments(f"{call.action}: the arguments are not what JSON can say: {error}") from None
    return Fingerprint(call.action, blake2b(encoded, digest_size=DIGEST_BYTES).digest())


def _encoded(plain: object) -> bytes:
    try:
        return _ENCODER.encode(plain)
    except OverflowError:  # MessagePack has integers of 64 bits; JSON has larger ones, but no infinity
        return msgspec.json.encode(plain, order="sorted")
