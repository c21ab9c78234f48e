// Two registry clients of Node.js, each by its documented way: node registry_client.js CLIENT URL TOPIC HEX
//
// It registers a schema for the topic's values, writes a user, reads the one in HEX, which another client has written, and asks for a
// schema that does not fit. One JSON object on standard output tells what came of it. REGISTRY_USER and REGISTRY_PASSWORD log in.
"use strict";

const [client, url, topic, hex] = process.argv.slice(2);
const { REGISTRY_USER: username, REGISTRY_PASSWORD: password } = process.env;
const given = Buffer.from(hex, "hex");
const subject = `${topic}-value`;
const age = { name: "age", type: ["null", "int"], default: null };
const user = { type: "record", name: "User", namespace: "example", fields: [{ name: "name", type: "string" }, age] };
const strict = { ...user, fields: [user.fields[0], { name: "height", type: "int" }] };

async function refusal(work) {
  try {
    await work();
  } catch (error) {
    return error.message;
  }
  return "";
}

async function ofKafkajs() {
  const { SchemaRegistry, SchemaType } = require("@kafkajs/confluent-schema-registry");
  const registry = new SchemaRegistry({ host: url, ...(username && { auth: { username, password } }) });
  const schema = { type: SchemaType.AVRO, schema: JSON.stringify(user) };
  const { id } = await registry.register(schema, { subject });
  const written = await registry.encode(id, { name: "ann", age: 3 });
  const read = await registry.decode(given);
  const found = await registry.getRegistryId(subject, 1);
  const again = { type: SchemaType.AVRO, schema: JSON.stringify(strict) };
  const refused = await refusal(() => registry.register(again, { subject }));
  return { written: written.toString("hex"), read: { ...read }, found: found === id, refused };
}

async function ofConfluent() {
  const { AvroDeserializer, AvroSerializer, SchemaRegistryClient, SerdeType } = require("@confluentinc/schemaregistry");
  const login = { credentialsSource: "USER_INFO", userInfo: `${username}:${password}` };
  const registry = new SchemaRegistryClient({ baseURLs: [url], ...(username && { basicAuthCredentials: login }) });
  const id = await registry.register(subject, { schemaType: "AVRO", schema: JSON.stringify(user) });
  const serializer = new AvroSerializer(registry, SerdeType.VALUE, { useLatestVersion: true });
  const written = await serializer.serialize(topic, { name: "ann", age: 3 });
  const read = await new AvroDeserializer(registry, SerdeType.VALUE, {}).deserialize(topic, given);
  const found = await registry.getLatestSchemaMetadata(subject);
  const again = { schemaType: "AVRO", schema: JSON.stringify(strict) };
  const compatible = await registry.testCompatibility(subject, 1, again);
  const refused = await refusal(() => registry.register(subject, again));
  return { written: written.toString("hex"), read: { ...read }, found: found.id === id && !compatible, refused };
}

const clients = { "@kafkajs/confluent-schema-registry": ofKafkajs, "@confluentinc/schemaregistry": ofConfluent };
clients[client]().then((told) => console.log(JSON.stringify(told)));
