package main

import (
	"context"
	"encoding/hex"
	"os"

	"github.com/hamba/avro/v2"
	"github.com/twmb/franz-go/pkg/sr"
)

// franz uses franz-go's package sr, with the codec of hamba/avro, as its documentation does.
func franz(url, topic string, given []byte) (told, error) {
	var seen told
	options := []sr.ClientOpt{sr.URLs(url)}
	if name := os.Getenv("REGISTRY_USER"); name != "" {
		options = append(options, sr.BasicAuth(name, os.Getenv("REGISTRY_PASSWORD")))
	}
	client, err := sr.NewClient(options...)
	if err != nil {
		return seen, err
	}
	ctx, subject := context.Background(), topic+"-value"
	made, err := client.CreateSchema(ctx, subject, sr.Schema{Schema: userSchema, Type: sr.TypeAvro})
	if err != nil {
		return seen, err
	}
	schema, err := avro.Parse(userSchema)
	if err != nil {
		return seen, err
	}
	var serde sr.Serde
	serde.Register(made.ID, user{},
		sr.EncodeFn(func(value any) ([]byte, error) { return avro.Marshal(schema, value) }),
		sr.DecodeFn(func(data []byte, value any) error { return avro.Unmarshal(schema, data, value) }))
	written, err := serde.Encode(ann())
	if err != nil {
		return seen, err
	}
	seen.Written = hex.EncodeToString(written)
	if err := serde.Decode(given, &seen.Read); err != nil {
		return seen, err
	}
	if seen.Versions, err = client.SubjectVersions(ctx, subject); err != nil {
		return seen, err
	}
	strict := sr.Schema{Schema: strictSchema, Type: sr.TypeAvro}
	checked, err := client.CheckCompatibility(ctx, subject, -1, strict)
	if err != nil {
		return seen, err
	}
	seen.Compatible = checked.Is
	if _, err := client.CreateSchema(ctx, subject, strict); err != nil {
		seen.Refused = err.Error()
	}
	return seen, nil
}
