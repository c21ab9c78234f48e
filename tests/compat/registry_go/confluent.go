package main

import (
	"encoding/hex"
	"os"

	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/serde"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/serde/avrov2"
)

// confluent uses the registry client and the Avro serializers of confluent-kafka-go, which need no librdkafka.
func confluent(url, topic string, given []byte) (told, error) {
	var seen told
	config := schemaregistry.NewConfig(url)
	if name := os.Getenv("REGISTRY_USER"); name != "" {
		config = schemaregistry.NewConfigWithBasicAuthentication(url, name, os.Getenv("REGISTRY_PASSWORD"))
	}
	client, err := schemaregistry.NewClient(config)
	if err != nil {
		return seen, err
	}
	subject := topic + "-value"
	if _, err := client.Register(subject, schemaregistry.SchemaInfo{Schema: userSchema, SchemaType: "AVRO"}, false); err != nil {
		return seen, err
	}
	latest := avrov2.NewSerializerConfig()
	latest.AutoRegisterSchemas = false
	latest.UseLatestVersion = true
	serializer, err := avrov2.NewSerializer(client, serde.ValueSerde, latest)
	if err != nil {
		return seen, err
	}
	value := ann()
	written, err := serializer.Serialize(topic, &value)
	if err != nil {
		return seen, err
	}
	seen.Written = hex.EncodeToString(written)
	deserializer, err := avrov2.NewDeserializer(client, serde.ValueSerde, avrov2.NewDeserializerConfig())
	if err != nil {
		return seen, err
	}
	if err := deserializer.DeserializeInto(topic, given, &seen.Read); err != nil {
		return seen, err
	}
	if seen.Versions, err = client.GetAllVersions(subject); err != nil {
		return seen, err
	}
	strict := schemaregistry.SchemaInfo{Schema: strictSchema, SchemaType: "AVRO"}
	if seen.Compatible, err = client.TestCompatibility(subject, 1, strict); err != nil {
		return seen, err
	}
	if _, err := client.Register(subject, strict, false); err != nil {
		seen.Refused = err.Error()
	}
	return seen, nil
}
