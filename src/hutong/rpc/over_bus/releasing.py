"""The method `hutong.release` of every object that has an address: its holder returns the references it received.

Knows no addresses.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec

from hutong.rpc.call import RELEASE
from hutong.rpc.descriptions.description import MethodDescription
from hutong.rpc.figures import MethodFigures
from hutong.rpc.serving.dispatcher import Served

UNCOUNTED: Final = 1 << 40
"""More references than ever come back."""


class Released(msgspec.Struct, forbid_unknown_fields=True):
    """`count` is how often the object was received."""

    count: Annotated[int, msgspec.Meta(ge=1, lt=UNCOUNTED)]


_RELEASING: Final = MethodDescription(RELEASE, (), Released, None)


def releasing(returned: Callable[[Any], None]) -> Served:
    """The method, for a dispatcher; `returned` is called with a Released."""
    return Served(_RELEASING, returned, is_plain=True, chain=(), figures=MethodFigures(), has_references=False)
