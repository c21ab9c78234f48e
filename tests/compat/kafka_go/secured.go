package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
)

const workRecords = 20

// An errand at a secured node: words that were read from a line.
type job struct {
	*world
	words   map[string]string
	seconds time.Duration
}

var securedActions = map[string]map[string]func(*job){"franz-go": franzSecured, "sarama": saramaSecured}

// secured does jobs, each a line of `key=value` words on standard input, and writes an error (or none) as a line for each.
func secured() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := map[string]string{}
		for _, word := range strings.Split(lines.Text(), "\t") {
			key, value, _ := strings.Cut(word, "=")
			words[key] = value
		}
		seconds := time.Duration(got(strconv.ParseFloat(words["seconds"], 64)) * float64(time.Second))
		action := securedActions[words["client"]][words["action"]]
		told := run(func(w *world) { action(&job{w, words, seconds}) }, words["bootstrap"], words["name"])
		fmt.Println(strings.ReplaceAll(told, "\n", " "))
	}
}

func (j *job) sasl() (mechanism, user, password string) {
	return j.words["mechanism"], j.words["user"], j.words["password"]
}

// tls is how to believe the node and who to be; nothing for a connection without TLS.
func (j *job) tls() *tls.Config {
	if j.words["authority"] == "" {
		return nil
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(got(os.ReadFile(j.words["authority"])))
	if j.words["certificate"] != "" {
		config.Certificates = []tls.Certificate{got(tls.LoadX509KeyPair(j.words["certificate"], j.words["key"]))}
	}
	return config
}

func (j *job) within(limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(j.ctx, limit)
}

func (j *job) checkWork(seen []string) {
	wanted := numbered("", workRecords)
	sort.Strings(seen)
	sort.Strings(wanted)
	same(seen, wanted, "records")
}
