package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	loadRecords = 8 // of a transaction; every third one is aborted
	patience    = 3 * time.Second
)

// franzLoad sends until standard input ends: `load BOOTSTRAP TOPIC TRANSACTED PARTITIONS LABEL PER_SECOND`. An idempotent
// producer writes TOPIC, a transactional one TRANSACTED. Standard output tells what was sent, and what became of it.
func franzLoad(words []string) {
	told := &teller{out: bufio.NewWriter(os.Stdout)}
	stopping, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	partitions, perSecond := int32(got(strconv.Atoi(words[3]))), got(strconv.Atoi(words[5]))
	var both sync.WaitGroup
	both.Go(func() { franzSteady(stopping, told, words[0], words[1], partitions, words[4], perSecond) })
	both.Go(func() { franzTransactions(stopping, told, words[0], words[2], partitions, words[4]) })
	both.Wait()
}

type teller struct {
	sync.Mutex
	out *bufio.Writer
}

func (t *teller) line(format string, values ...any) {
	t.Lock()
	defer t.Unlock()
	fmt.Fprintf(t.out, format+"\n", values...)
	must(t.out.Flush())
}

func loadClient(bootstrap string, options ...kgo.Opt) *kgo.Client {
	options = append(options, kgo.SeedBrokers(strings.Split(bootstrap, ",")...), manually)
	options = append(options, kgo.MetadataMinAge(100*time.Millisecond), kgo.MetadataMaxAge(time.Second))
	options = append(options, kgo.RequestTimeoutOverhead(patience), kgo.DialTimeout(patience), kgo.ProduceRequestTimeout(patience))
	return got(kgo.NewClient(options...))
}

func franzSteady(stopping context.Context, told *teller, bootstrap, topic string, partitions int32, label string, perSecond int) {
	client := loadClient(bootstrap)
	defer client.Close()
	pace := time.NewTicker(time.Second / time.Duration(perSecond))
	defer pace.Stop()
	for number := 0; stopping.Err() == nil; number++ {
		<-pace.C
		one := record(topic, int32(number)%partitions, fmt.Sprintf("%s-%d", label, number))
		told.line("sent %d %s", one.Partition, one.Value)
		client.Produce(context.Background(), one, func(r *kgo.Record, err error) {
			if err != nil {
				told.line("failed %d %s %v", r.Partition, r.Value, err)
			} else {
				told.line("acknowledged %d %s %d", r.Partition, r.Value, r.Offset)
			}
		})
	}
	must(client.Flush(context.Background()))
}

func franzTransactions(stopping context.Context, told *teller, bootstrap, topic string, partitions int32, label string) {
	number := 0
	for stopping.Err() == nil {
		client := loadClient(bootstrap, kgo.TransactionalID(label), kgo.TransactionTimeout(30*time.Second))
		for stopping.Err() == nil {
			number++
			outcome := franzTransaction(client, topic, partitions, fmt.Sprintf("%s-t%d", label, number), number%3 != 0)
			told.line("%s %s-t%d %d", outcome, label, number, loadRecords)
			if outcome == "unknown" {
				break // a new producer fences this one
			}
		}
		client.Close()
	}
}

// franzTransaction is what became of one transaction, whose records are called PREFIX-0 and so on.
func franzTransaction(client *kgo.Client, topic string, partitions int32, prefix string, isCommit bool) string {
	if client.BeginTransaction() != nil {
		return "unknown"
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var failed error
	for part := range int32(loadRecords) {
		client.Produce(ctx, record(topic, part%partitions, fmt.Sprintf("%s-%d", prefix, part)), func(_ *kgo.Record, err error) {
			failed = errors.Join(failed, err)
		})
	}
	if client.Flush(ctx) != nil {
		return "unknown"
	}
	end := kgo.TransactionEndTry(isCommit && failed == nil)
	if err := client.EndTransaction(ctx, end); err != nil { // it has repeated what can be repeated
		fmt.Fprintln(os.Stderr, prefix, "did not end:", err)
		return "unknown"
	}
	if end == kgo.TryAbort {
		return "aborted"
	}
	return "committed"
}
