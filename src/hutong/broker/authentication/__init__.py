"""SASL before the dispatch: the exchange on a connection, its frames, and the users' stored credentials."""
