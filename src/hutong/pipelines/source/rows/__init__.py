"""Keys and values as typed columns: formats, schemas, and decoders from bytes to rows. Knows nothing of brokers."""
