"""The keys of an OpenID Connect provider, fetched on a thread, and the tokens that clients log in with.

Strategy: `sources` is where the settings say the keys are, `tokens` the driver of `security/oauth`.
Imported only where a listener offers OAUTHBEARER.
"""
