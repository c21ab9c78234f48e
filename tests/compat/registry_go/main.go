// Two registry clients of Go, each by its documented way: main CLIENT URL TOPIC HEX
//
// It registers a schema for the topic's values, writes a user, reads the one in HEX, which another client has written, and asks for a
// schema that does not fit. One JSON object on standard output tells what came of it. REGISTRY_USER and REGISTRY_PASSWORD log in.
package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
)

// userSchema is what the users of all languages are written with.
const userSchema = `{"type":"record","name":"User","namespace":"example","fields":[` +
	`{"name":"name","type":"string"},{"name":"age","type":["null","int"],"default":null}]}`

// strictSchema has a field that userSchema lacks, and no default for it.
const strictSchema = `{"type":"record","name":"User","namespace":"example","fields":[` +
	`{"name":"name","type":"string"},{"name":"height","type":"int"}]}`

type user struct {
	Name string `avro:"name" json:"name"`
	Age  *int32 `avro:"age" json:"age"`
}

// told is what the test compares.
type told struct {
	Written    string `json:"written"`
	Read       user   `json:"read"`
	Versions   []int  `json:"versions"`
	Compatible bool   `json:"compatible"`
	Refused    string `json:"refused"`
}

func main() {
	clients := map[string]func(url, topic string, given []byte) (told, error){"franz-go": franz, "confluent-kafka-go": confluent}
	given, err := hex.DecodeString(os.Args[4])
	if err == nil {
		var seen told
		if seen, err = clients[os.Args[1]](os.Args[2], os.Args[3], given); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(seen)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func ann() user {
	age := int32(3)
	return user{Name: "ann", Age: &age}
}
