"""A message and everything that is carried with it: body, codec, headers, reply; the interceptors that see it."""
