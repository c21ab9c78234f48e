"""Commands that speak Kafka's protocol, to this broker or any other."""
