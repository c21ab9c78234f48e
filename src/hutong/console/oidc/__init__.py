"""Logins by an OpenID Connect provider: authorization code flow with PKCE, tokens for the brokers, their renewal."""
