package main

import (
	"errors"
	"strings"

	"github.com/IBM/sarama"
)

func saramaCommitted(c *sarama.Config) { c.Consumer.IsolationLevel = sarama.ReadCommitted }

func (w *world) saramaTransactional() sarama.SyncProducer {
	return w.saramaProducer(idempotent, func(c *sarama.Config) {
		c.Producer.Transaction.ID = w.name
		c.Producer.Transaction.Retry.Max = 5
	})
}

func saramaTransaction(producer sarama.SyncProducer, topic string, values []string, end func() error) {
	must(producer.BeginTxn())
	must(producer.SendMessages(messages(topic, 0, values)))
	must(end())
}

func saramaTxnCommit(w *world) {
	topic := w.saramaTopic(1)
	producer := w.saramaTransactional()
	defer producer.Close()
	must(producer.BeginTxn())
	must(producer.SendMessages(messages(topic, 0, numbered("a", 10))))
	same(saramaValues(w.saramaRead(topic, 0, 0, 10)), numbered("a", 10), "uncommitted values")
	must(producer.CommitTxn())
	saramaTransaction(producer, topic, numbered("b", 10), producer.CommitTxn)
	seen := w.saramaRead(topic, 0, 0, 20, saramaCommitted)
	same(saramaValues(seen), append(numbered("a", 10), numbered("b", 10)...), "committed values")
	equal(seen[10].Offset, 11, "offset behind a marker")
}

func saramaTxnAbort(w *world) {
	topic := w.saramaTopic(1)
	producer := w.saramaTransactional()
	defer producer.Close()
	saramaTransaction(producer, topic, numbered("no", 10), producer.AbortTxn)
	saramaTransaction(producer, topic, numbered("yes", 10), producer.CommitTxn)
	saramaTransaction(producer, topic, numbered("no", 10), producer.AbortTxn)
	w.saramaSend(topic, 0, []string{"plain"})
	wanted := append(numbered("yes", 10), "plain")
	same(saramaValues(w.saramaRead(topic, 0, 0, 11, saramaCommitted)), wanted, "committed values")
	equal(len(w.saramaRead(topic, 0, 0, 31)), 31, "all values")
}

func saramaTxnOffsets(w *world) {
	topic := w.saramaTopic(1)
	inner := *w
	inner.name += "-out"
	out := inner.saramaTopic(1)
	w.saramaSend(topic, 0, numbered("", 20))
	producer := w.saramaTransactional()
	defer producer.Close()
	only := w.saramaJoin(w.name, topic)
	only.each = func(session sarama.ConsumerGroupSession, message *sarama.ConsumerMessage) {
		member := sarama.NewConsumerGroupMetadataFromSession(session, w.name, nil)
		ends := []func() error{producer.CommitTxn}
		if message.Offset == 7 {
			ends = []func() error{producer.AbortTxn, producer.CommitTxn}
		}
		for _, end := range ends {
			must(producer.BeginTxn())
			must(producer.SendMessages(messages(out, 0, []string{strings.ToUpper("v" + string(message.Value))})))
			must(producer.AddMessageToTxnWithGroupMetadata(message, member, nil))
			must(end())
		}
	}
	w.until("all is read", func() bool { return len(only.read()) == 20 })
	same(saramaValues(w.saramaRead(out, 0, 0, 20, saramaCommitted)), numbered("V", 20), "values")
	only.leave()
	admin := w.saramaAdmin()
	defer admin.Close()
	block := got(admin.ListConsumerGroupOffsets(w.name, map[string][]int32{topic: {0}})).GetBlock(topic, 0)
	equal(block.Offset, 20, "committed offset")
}

func saramaTxnFencing(w *world) {
	topic := w.saramaTopic(1)
	old := w.saramaTransactional()
	defer old.Close()
	must(old.BeginTxn())
	must(old.SendMessages(messages(topic, 0, []string{"old"})))
	young := w.saramaTransactional()
	defer young.Close()
	saramaTransaction(young, topic, []string{"young"}, young.CommitTxn)
	err := old.SendMessages(messages(topic, 0, []string{"old"}))
	if err == nil {
		err = old.CommitTxn()
	}
	var all sarama.ProducerErrors
	if errors.As(err, &all) {
		err = all[0].Err
	}
	fenced := errors.Is(err, sarama.ErrInvalidProducerEpoch) || errors.Is(err, sarama.ErrProducerFenced)
	check(fenced, "the old producer is not fenced: %v", err)
	same(saramaValues(w.saramaRead(topic, 0, 0, 1, saramaCommitted)), []string{"young"}, "committed values")
}

func saramaDescribeTransactions(w *world) {
	topic := w.saramaTopic(1)
	producer := w.saramaTransactional()
	defer producer.Close()
	must(producer.BeginTxn())
	must(producer.SendMessages(messages(topic, 0, []string{"open"})))
	admin := w.saramaAdmin()
	defer admin.Close()
	described := got(admin.DescribeTransactions([]string{w.name}))[w.name]
	equal(described.TransactionState, "Ongoing", "state as described")
	equal(described.Topics[0].Topic, topic, "topic")
	listed := false
	for _, one := range got(admin.ListTransactions([]string{"Ongoing"}, nil, -1)) {
		listed = listed || one.TransactionalID == w.name && one.ProducerID == described.ProducerID
	}
	check(listed, "not listed")
	producers := got(admin.DescribeProducers(map[string][]int32{topic: {0}}))[topic][0].ActiveProducers
	equal(len(producers), 1, "producers")
	equal(producers[0].ProducerID, described.ProducerID, "producer id")
	equal(producers[0].CurrentTxnStartOffset, 0, "start of the open transaction")
	must(producer.CommitTxn())
	w.until("the end", func() bool {
		return got(admin.DescribeTransactions([]string{w.name}))[w.name].TransactionState == "CompleteCommit"
	})
}
