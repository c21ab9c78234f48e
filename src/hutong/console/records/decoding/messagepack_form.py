"""MessagePack: one value that takes all the bytes.

Knows nothing of other forms.
"""

from typing import Any

import msgspec

from hutong.console.limits import VALUE_BYTES_MAX
from hutong.console.records.decoding.shown import OtherForm


def read_messagepack(data: bytes) -> Any:
    """The value. Raises OtherForm."""
    if len(data) > VALUE_BYTES_MAX:
        raise OtherForm(f"it is longer than the {VALUE_BYTES_MAX >> 20} MiB that are looked at as MessagePack")
    try:
        # Lengths are compared with what is left of the data before anything is made of them.
        return msgspec.msgpack.decode(data)
    except RecursionError:
        raise OtherForm("it is nested too deep to be shown as MessagePack") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise OtherForm(f"it is no MessagePack: {error}") from None
