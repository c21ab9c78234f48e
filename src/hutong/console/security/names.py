r"""Names of users, hosts and resources, before they reach the library.

Strategy: librdkafka takes names as texts of C, which end at a NUL. An ACL for `a\0b` would be one for `a`.
"""

from typing import Final

from hutong.web.answers import WebRefusal

NAME_CHARACTERS_MAX: Final = 1_000


def check_name(name: str) -> str:
    """The name as it is. Raises WebRefusal(400)."""
    if not name or len(name) > NAME_CHARACTERS_MAX or "\0" in name:
        raise WebRefusal(400, f"A name has 1 to {NAME_CHARACTERS_MAX} characters, none of them NUL.", 40002)
    return name
