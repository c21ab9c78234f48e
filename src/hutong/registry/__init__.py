"""A schema registry with Confluent's REST API, kept in the topic `_schemas`.

Strategy: `machine` is the state, `records` its layout in the topic, `store` the topic; `service` puts changes in order;
`checks` and `formats` know schemas; `routes` is the API. Needs the extra `registry`, and is imported where it is on.
"""
