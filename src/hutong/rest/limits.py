"""Bounds of the gateway by name.

Decides nothing.
"""

from typing import Final

from hutong.web.limits import MEBIBYTE

BODY_BYTES_MAX: Final = 10 * MEBIBYTE
RECORDS_OF_REQUEST_MAX: Final = 10_000
SCHEMAS_OF_REQUEST_MAX: Final = 100
HEADERS_OF_RECORD_MAX: Final = 1_000
ACCOUNTS_MAX: Final = 64
"""Users with clients at a time. Each has about 3 MB and 4 threads of librdkafka once it has produced and asked."""
ACCOUNT_IDLE_MS: Final = 300_000
LOGINS_MAX: Final = 8
"""Logins under way. A wrong password costs a connection and a thread for as long as the broker lets it wait."""
LOGIN_MS_MAX: Final = 10_000
CALL_S_MAX: Final = 15.0
"""For one question to the brokers, as of topics or groups."""
PUBLISH_MS_MAX: Final = 30_000
UNDER_WAY_MAX: Final = 50_000
"""Records of one user that have no answer yet; above that a request is answered with 429."""
READERS_MAX: Final = 64
"""Consumers of the gateway: reads, live streams and instances of groups together."""
READ_RECORDS_DEFAULT: Final = 100
READ_RECORDS_MAX: Final = 10_000
READ_BYTES_MAX: Final = 8 * MEBIBYTE
"""Of keys and values in one answer. What does not fit comes with the next read; one larger record comes alone."""
READ_WAIT_MS_DEFAULT: Final = 1_000
READ_WAIT_MS_MAX: Final = 30_000
LIVE_BATCH_MAX: Final = 500
LIVE_PARTITIONS_MAX: Final = 200
"""Of a streamed topic: the id of each event has the position of every partition."""
INSTANCE_IDLE_MS: Final = 300_000
"""As `consumer.instance.timeout.ms` of the REST proxy."""
INSTANCE_NAME_CHARACTERS_MAX: Final = 200
TOPICS_OF_INSTANCE_MAX: Final = 1_000
