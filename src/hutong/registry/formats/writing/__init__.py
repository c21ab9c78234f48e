"""JSON values to the bytes of a schema's format, for clients that have no serializer."""
