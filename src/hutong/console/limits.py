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

# Records that are shown.

VALUE_CHARS_MAX: Final = 64 * KIBIBYTE
"""Of a key or value that is shown at first."""
VALUE_BYTES_MAX: Final = MEBIBYTE
"""Of a key or value that is decoded, searched, or shown on demand."""
CONDITION_CHARS_MAX: Final = 1_000
"""Of one condition of a search."""
CONDITIONS_MAX: Final = 8
PATH_STEPS_MAX: Final = 32
SEARCH_MATCHES_MAX: Final = 200
"""Of one search."""
TAIL_RECORDS_PER_S: Final = 50
"""Of a live tail that are shown: more cannot be read by people."""
SEARCH_HELD_BYTES_MAX: Final = 16 * MEBIBYTE
"""Of the matches that are sorted at the end of a part."""
SEARCH_PART_OFFSETS_MIN: Final = 500
SEARCH_PART_OFFSETS_MAX: Final = 20_000
"""Of one partition, in a search from the newest on."""
READ_PARTITIONS_MAX: Final = 200
"""Of a topic that are read together: a page's place has an offset for each."""
PAGE_RECORDS_DEFAULT: Final = 50
PAGE_RECORDS_MAX: Final = 200
PAGE_READ_MS_MAX: Final = 5_000
PREVIEW_CHARS_MAX: Final = 500
"""Of a key or value in a list; a record that is opened shows more."""
LISTED_BYTES_MAX: Final = 16 * KIBIBYTE
"""Of a key, a value and headers that a page or a tail keeps of each record: it reads many that it does not show."""
HEADERS_SHOWN_MAX: Final = 100
HEADER_CHARS_MAX: Final = 2_000
RECORDS_BYTES_PER_S: Final = 16 * MEBIBYTE
"""Read by all users of a console together, so that it takes little from the clients of the brokers."""
READ_WAIT_MS_MAX: Final = 5_000
"""Of a page that waits for that rate."""
SEARCH_CLOCKS_DIFFER_MS: Final = 600_000
"""Of producers: a search until a time looks at records that are later by up to this."""
TAIL_TURN_MS: Final = 250
TAIL_READ_MS_MAX: Final = 1_000
COPY_RECORDS_MAX: Final = 10_000
"""Of one copy to another topic, which the browser waits for."""
COPY_BYTES_MAX: Final = 64 * MEBIBYTE
COPY_MS_MAX: Final = 60_000
COPY_PARTITIONS_MAX: Final = 200

# The bus and services.


# Bus and services.

ADDRESSES_SHOWN_MAX: Final = 10_000
"""Of the bus, in one answer."""
BUS_TIMEOUT_MS_MAX: Final = 60_000
BUS_HEADERS_MAX: Final = 100
BUS_BODY_CHARACTERS_SHOWN: Final = 4 * KIBIBYTE
"""Of each message that a tap shows."""
TAPS_MAX: Final = 8
TAPPED_WAITING_MAX: Final = 200
"""Messages of a tap that wait for the browser; what comes beyond is counted, and not shown."""
TAP_INTERVAL_MS: Final = 250
SERVICES_SHOWN_MAX: Final = 2_000
CALL_TIMEOUT_MS_MAX: Final = 60_000

# Topics.

TOPICS_LISTED_MAX: Final = 10_000
OFFSETS_LISTED_MAX: Final = 50_000
"""Partitions of one list whose offsets are asked for; with more the list has names alone."""
PARTITIONS_ADDED_MAX: Final = 10_000
"""Of a topic, or as its replicas."""

# A record's way.

TRAIL_TOPICS_MAX: Final = 500
TRAIL_OFFSETS_MAX: Final = 500_000
"""Of all topics of one trail together; each gets its share, from the newest on."""
TRAIL_HOPS_MAX: Final = 500
TRAIL_GROUPS_MAX: Final = 200
TRAIL_TOPIC_MS_MAX: Final = 10_000
TRAIL_TRACES_MAX: Final = 20
"""Of one question to other nodes, and of one page."""
TRAIL_BATCHES_MAX: Final = 500
"""Of pipelines."""
TRAIL_NODES_MAX: Final = 50
"""Nodes that are asked for their spans."""
TRAIL_TEXT_CHARACTERS_MAX: Final = 200

# Users and their rights.

USERS_SHOWN_MAX: Final = 10_000
ACLS_SHOWN_MAX: Final = 10_000

# Logins by a provider.

OIDC_ANSWER_BYTES_MAX: Final = 256 * KIBIBYTE
"""Of a provider's description of itself, and of its tokens."""
OIDC_URL_CHARACTERS_MAX: Final = 2_000
TOKEN_CHARACTERS_MAX: Final = 64 * KIBIBYTE
TOKEN_LIFE_S_MAX: Final = 86_400.0
CODE_CHARACTERS_MAX: Final = 4_000
LOGIN_ATTEMPT_MS_MAX: Final = 600_000
LOGIN_PATH_CHARACTERS_MAX: Final = 1_000
LOGINS_REMEMBERED_MAX: Final = 1_000
"""Logins that came back, so that none counts twice."""
PROVIDER_QUESTIONS_MAX: Final = 8
"""Questions to the provider under way: a slow one takes no more threads."""
PROVIDER_KEPT_MS: Final = 3_600_000
"""A provider's description and keys are asked for again after so long."""
PROVIDER_KEYS_AGAIN_MS: Final = 10_000
"""And its keys for a token of an unknown key, if the last question was so long ago."""
