"""Access tokens of OpenID Connect: JSON Web Tokens (RFC 7519), checked against a provider's keys (RFC 7517).

Strategy: pure values. Bytes of a key set become keys (`key_sets`), a token becomes its owner or a refusal (`tokens`),
and `machine` decides when the keys are fetched again. Bytes and time arrive with each call.

Knows nothing of SASL, HTTP or clocks. Needs the extra `oauth`.
"""
