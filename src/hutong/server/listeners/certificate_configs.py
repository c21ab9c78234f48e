"""The settings by which Kafka's tools have a running broker load its certificates again (KIP-226).

Strategy: a client may set a file's name to its present value only, which is how Kafka is notified of changed contents.
Any other name is refused, because no client may name a file that a node reads. Unusable files are refused.

Knows nothing of TLS.
"""

from typing import Final

from hutong.broker.configs.node_configs import NodeConfigs
from hutong.broker.topics.topic_config import ConfigKey, ConfigType
from hutong.foundation.errors import Refused, UsageError
from hutong.server.configuration.sections.security import TlsSettings
from hutong.server.listeners.certificates import Certificates
from hutong.wire.kafka.error_codes import ErrorCode

CERTIFICATE: Final = "ssl.keystore.location"
AUTHORITIES: Final = "ssl.truststore.location"


def add_certificate_configs(configs: NodeConfigs, settings: TlsSettings, certificates: Certificates) -> None:
    """Check the files whenever a client sets one of these, from now on."""
    files = {CERTIFICATE: str(settings.certificate)}
    if settings.client_ca is not None:
        files[AUTHORITIES] = str(settings.client_ca)

    def check(overrides: object) -> None:
        try:
            certificates.check()
        except UsageError as error:
            raise Refused(ErrorCode.INVALID_REQUEST, str(error)) from None

    configs.add([_key(name, file) for name, file in files.items()], files, of_listeners=files, check=check)
    configs.on_change.append(certificates.reload_if_changed)


def _key(name: str, file: str) -> ConfigKey:
    meaning = "The file that was named when the node was started: setting it again loads what has changed in it."
    return ConfigKey(name, ConfigType.STRING, "", lambda value: value == file, meaning)
