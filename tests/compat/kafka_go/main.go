// Go's Kafka clients against a node: franz-go and sarama, each used as its documentation shows.
//
// Arguments: client, bootstrap, name, scenario... Each scenario works on topics and groups of its own, called
// NAME-SCENARIO, and is named after the feature that it shows. Prints one line of JSON per scenario:
// {"scenario": ..., "error": ...}, where no error means that all was as it must be. With `secured` as only argument
// it does jobs at secured nodes (secured.go), with `load` as first one it sends for as long as it may (franz_load.go).
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

const scenarioLimit = 60 * time.Second

// One scenario's world. What is wrong panics with a failure, which the runner tells.
type world struct {
	ctx       context.Context
	bootstrap string
	name      string
}

type failure string

func must(err error) {
	if err != nil {
		panic(failure(err.Error()))
	}
}

func got[T any](value T, err error) T {
	must(err)
	return value
}

func check(holds bool, format string, values ...any) {
	if !holds {
		panic(failure(fmt.Sprintf(format, values...)))
	}
}

// brokers is how many nodes are up: TEST_BROKERS, or one.
func brokers() int {
	count, err := strconv.Atoi(os.Getenv("TEST_BROKERS"))
	if err != nil {
		return 1
	}
	return count
}

func equal[T comparable](seen, wanted T, what string) {
	check(seen == wanted, "%s: %v, not %v", what, seen, wanted)
}

// mustFail wants an error that speaks of `word`.
func mustFail(err error, word string) {
	check(err != nil, "no error, where %s was due", word)
	check(strings.Contains(strings.ToUpper(err.Error()), strings.ToUpper(word)), "%q does not speak of %s", err, word)
}

// until asks again and again, at the pace of the question itself, until it holds or the scenario's time is over.
func (w *world) until(what string, holds func() bool) {
	for !holds() {
		check(w.ctx.Err() == nil, "%s did not happen", what)
		time.Sleep(10 * time.Millisecond)
	}
}

func numbered(prefix string, count int) []string {
	values := make([]string, count)
	for number := range values {
		values[number] = fmt.Sprintf("%s%d", prefix, number)
	}
	return values
}

func same(seen, wanted []string, what string) {
	check(strings.Join(seen, " ") == strings.Join(wanted, " "), "%s: %.300v, not %.300v", what, seen, wanted)
}

// thrice wants each value three times, in any order: what is not acknowledged may be overtaken.
func thrice(seen, values []string) {
	count := map[string]int{}
	for _, value := range seen {
		count[value]++
	}
	for _, value := range values {
		equal(count[value], 3, "times that "+value+" came")
	}
}

func run(scenario func(*world), bootstrap, name string) (told string) {
	ctx, cancel := context.WithTimeout(context.Background(), scenarioLimit)
	defer cancel()
	defer func() {
		switch thrown := recover().(type) {
		case nil:
		case failure:
			told = string(thrown) + " (" + place(string(debug.Stack())) + ")"
		default:
			told = fmt.Sprintf("%v\n%s", thrown, debug.Stack())
		}
	}()
	scenario(&world{ctx, bootstrap, name})
	return ""
}

// place is the line of the scenario that failed.
func place(stack string) string {
	for _, line := range strings.Split(stack, "\n") {
		_, file, found := strings.Cut(line, "/")
		file = file[strings.LastIndex(file, "/")+1:]
		if found && (strings.HasPrefix(file, "franz") || strings.HasPrefix(file, "sarama")) {
			return strings.Fields(file)[0]
		}
	}
	return "?"
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "secured" {
		secured()
		return
	}
	if os.Args[1] == "load" {
		franzLoad(os.Args[2:])
		return
	}
	all := map[string]map[string]func(*world){"franz-go": franzScenarios, "sarama": saramaScenarios}
	client, bootstrap, name := os.Args[1], os.Args[2], os.Args[3]
	failed := false
	for _, wanted := range os.Args[4:] {
		scenario, known := all[client][wanted]
		line := map[string]string{"scenario": wanted, "error": "no such scenario"}
		if known {
			line["error"] = run(scenario, bootstrap, name+"-"+wanted)
		}
		failed = failed || line["error"] != ""
		must(json.NewEncoder(os.Stdout).Encode(line))
	}
	if failed {
		os.Exit(1)
	}
}
