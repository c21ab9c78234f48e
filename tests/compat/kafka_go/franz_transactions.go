package main

import (
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var committedOnly = kgo.FetchIsolationLevel(kgo.ReadCommitted())

func (w *world) franzTransactional() *kgo.Client {
	return w.franz(kgo.TransactionalID(w.name), manually)
}

func (w *world) inTransaction(client *kgo.Client, topic string, values []string, end kgo.TransactionEndTry) {
	must(client.BeginTransaction())
	must(client.ProduceSync(w.ctx, records(topic, 0, values)...).FirstErr())
	must(client.EndTransaction(w.ctx, end))
}

func franzTxnCommit(w *world) {
	topic := w.franzTopic(1)
	client := w.franzTransactional()
	defer client.Close()
	admin, done := w.franzAdmin()
	defer done()
	must(client.BeginTransaction())
	must(client.ProduceSync(w.ctx, records(topic, 0, numbered("a", 10))...).FirstErr())
	stable, _ := got(admin.ListCommittedOffsets(w.ctx, topic)).Lookup(topic, 0)
	equal(stable.Offset, 0, "last stable offset within the transaction")
	same(valuesOf(w.franzRead(topic, 0, 10)), numbered("a", 10), "uncommitted values")
	must(client.EndTransaction(w.ctx, kgo.TryCommit))
	w.inTransaction(client, topic, numbered("b", 10), kgo.TryCommit)
	seen := w.franzRead(topic, 0, 20, committedOnly)
	same(valuesOf(seen), append(numbered("a", 10), numbered("b", 10)...), "committed values")
	equal(seen[10].Offset, 11, "offset behind a marker")
	check(seen[0].Attrs.IsTransactional(), "not transactional")
}

func franzTxnAbort(w *world) {
	topic := w.franzTopic(1)
	client := w.franzTransactional()
	defer client.Close()
	w.inTransaction(client, topic, numbered("no", 10), kgo.TryAbort)
	w.inTransaction(client, topic, numbered("yes", 10), kgo.TryCommit)
	w.inTransaction(client, topic, numbered("no", 10), kgo.TryAbort)
	w.franzSend(topic, 0, []string{"plain"})
	wanted := append(numbered("yes", 10), "plain")
	same(valuesOf(w.franzRead(topic, 0, 11, committedOnly)), wanted, "committed values")
	equal(len(w.franzRead(topic, 0, 31)), 31, "all values")
}

func franzTxnOffsets(w *world) {
	topic := w.franzTopic(1)
	inner := *w
	inner.name += "-out"
	out := inner.franzTopic(1)
	w.franzSend(topic, 0, numbered("", 30))
	aborted := false
	for range 2 { // the second session resumes where the first committed
		session := got(kgo.NewGroupTransactSession(append([]kgo.Opt{
			kgo.SeedBrokers(w.bootstrap), kgo.TransactionalID(w.name), kgo.ConsumerGroup(w.name), kgo.ConsumeTopics(topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RequireStableFetchOffsets(), committedOnly,
		}, quick...)...))
		for moved := 0; moved < 15; {
			fetches := session.PollRecords(w.ctx, 5)
			must(fetches.Err0())
			must(session.Begin())
			for _, one := range fetches.Records() {
				session.Produce(w.ctx, record(out, 0, strings.ToUpper("v"+string(one.Value))), nil)
			}
			if !aborted {
				aborted = true
				committed := got(session.End(w.ctx, kgo.TryAbort))
				check(!committed, "committed, where an abort was asked for")
				continue
			}
			check(got(session.End(w.ctx, kgo.TryCommit)), "not committed")
			moved += fetches.NumRecords()
		}
		session.Close()
	}
	same(valuesOf(w.franzRead(out, 0, 30, committedOnly)), numbered("V", 30), "values")
	admin, done := w.franzAdmin()
	defer done()
	committed, _ := got(admin.FetchOffsets(w.ctx, w.name)).Lookup(topic, 0)
	equal(committed.At, 30, "committed offset")
}

func franzTxnFencing(w *world) {
	topic := w.franzTopic(1)
	old := w.franzTransactional()
	defer old.Close()
	must(old.BeginTransaction())
	must(old.ProduceSync(w.ctx, record(topic, 0, "old")).FirstErr())
	young := w.franzTransactional()
	defer young.Close()
	w.inTransaction(young, topic, []string{"young"}, kgo.TryCommit)
	err := old.ProduceSync(w.ctx, record(topic, 0, "old")).FirstErr()
	if err == nil {
		err = old.EndTransaction(w.ctx, kgo.TryCommit)
	}
	fenced := errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.ProducerFenced)
	check(fenced, "the old producer is not fenced: %v", err)
	same(valuesOf(w.franzRead(topic, 0, 1, committedOnly)), []string{"young"}, "committed values")
}

func franzDescribeTransactions(w *world) {
	topic := w.franzTopic(1)
	client := w.franzTransactional()
	defer client.Close()
	must(client.BeginTransaction())
	must(client.ProduceSync(w.ctx, record(topic, 0, "open")).FirstErr())
	admin, done := w.franzAdmin()
	defer done()
	listed := got(admin.ListTransactions(w.ctx, nil, []string{"Ongoing"}))[w.name]
	equal(listed.State, "Ongoing", "state as listed")
	described := got(admin.DescribeTransactions(w.ctx, w.name))[w.name]
	must(described.Err)
	equal(described.State, "Ongoing", "state as described")
	equal(described.ProducerID, listed.ProducerID, "producer id")
	check(described.Topics.Lookup(topic, 0), "partitions: %v", described.Topics)
	producers := got(admin.DescribeProducers(w.ctx, kadm.TopicsSet{topic: {0: {}}}))
	producer := producers[topic].Partitions[0].ActiveProducers[listed.ProducerID]
	equal(producer.CurrentTxnStartOffset, 0, "start of the open transaction")
	must(client.EndTransaction(w.ctx, kgo.TryCommit))
	w.until("the end", func() bool {
		return got(admin.DescribeTransactions(w.ctx, w.name))[w.name].State == "CompleteCommit"
	})
}
