"""Users and rights at the brokers: SCRAM credentials and ACLs, as Kafka's own requests have them."""
