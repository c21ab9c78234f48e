"""Bounds of the console by name.

Decides nothing.
"""

from typing import Final

from hutong.web.limits import KIBIBYTE, MEBIBYTE

BODY_BYTES_MAX: Final = 2 * MEBIBYTE
"""Of a request: a record of 1 MiB, escaped."""
SESSIONS_MAX: Final = 200
SESSION_IDLE_MS: Final = 30 * 60_000
SESSION_MS_MAX: Final = 12 * 3_600_000
"""A session ends after so long, used or not: OWASP's session management sheet, absolute time-out."""
USER_CHARACTERS_MAX: Final = 256
PASSWORD_CHARACTERS_MAX: Final = 1_024
AUDIT_VALUE_BYTES_MAX: Final = 16 * KIBIBYTE
"""Of what was there before a change, and after it, in the audit's record."""
