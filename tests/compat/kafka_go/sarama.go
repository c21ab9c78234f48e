package main

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

var saramaScenarios = map[string]func(*world){
	"produce-acks":          saramaAcks,
	"produce-idempotent":    saramaIdempotent,
	"compression":           saramaCompression,
	"headers":               saramaHeaders,
	"nulls":                 saramaNulls,
	"large-records":         saramaLargeRecords,
	"produce-errors":        saramaProduceErrors,
	"consume-range":         saramaRange,
	"seek":                  saramaSeek,
	"offsets-for-times":     saramaTimes,
	"out-of-range":          saramaOutOfRange,
	"group-rebalance":       saramaRebalance,
	"group-commit":          saramaCommit,
	"group-static":          saramaStatic,
	"group-cooperative":     saramaCooperative,
	"topics":                saramaTopics,
	"partitions":            saramaPartitions,
	"configs":               saramaConfigs,
	"cluster":               saramaCluster,
	"groups-described":      saramaGroupsDescribed,
	"groups-deleted":        saramaGroupsDeleted,
	"group-offsets":         saramaGroupOffsets,
	"delete-records":        saramaDeleteRecords,
	"list-offsets":          saramaListOffsets,
	"log-dirs":              saramaLogDirs,
	"client-quotas":         saramaQuotas,
	"describe-transactions": saramaDescribeTransactions,
	"txn-commit":            saramaTxnCommit,
	"txn-abort":             saramaTxnAbort,
	"txn-offsets":           saramaTxnOffsets,
	"txn-fencing":           saramaTxnFencing,
}

type setting func(*sarama.Config)

func saramaConfig(settings ...setting) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll // in a cluster consumers see the rest a little later
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = 6 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	for _, set := range settings {
		set(config)
	}
	return config
}

func (w *world) saramaProducer(settings ...setting) sarama.SyncProducer {
	return got(sarama.NewSyncProducer([]string{w.bootstrap}, saramaConfig(settings...)))
}

func (w *world) saramaAdmin() sarama.TransactionClusterAdmin {
	return got(sarama.NewClusterAdmin([]string{w.bootstrap}, saramaConfig())).(sarama.TransactionClusterAdmin)
}

func (w *world) saramaTopic(partitions int32) string {
	admin := w.saramaAdmin()
	defer admin.Close()
	must(admin.CreateTopic(w.name, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}, false))
	return w.name
}

func messages(topic string, partition int32, values []string) []*sarama.ProducerMessage {
	all := make([]*sarama.ProducerMessage, len(values))
	for index, value := range values {
		all[index] = &sarama.ProducerMessage{Topic: topic, Partition: partition, Value: sarama.StringEncoder(value)}
	}
	return all
}

func (w *world) saramaSend(topic string, partition int32, values []string, settings ...setting) {
	producer := w.saramaProducer(settings...)
	defer producer.Close()
	must(producer.SendMessages(messages(topic, partition, values)))
}

// saramaRead reads `count` records of a partition from an offset on.
func (w *world) saramaRead(topic string, partition int32, offset int64, count int, settings ...setting) []*sarama.ConsumerMessage {
	consumer := got(sarama.NewConsumer([]string{w.bootstrap}, saramaConfig(settings...)))
	defer consumer.Close()
	part := got(consumer.ConsumePartition(topic, partition, offset))
	defer part.Close()
	return w.take(part, count)
}

func (w *world) take(part sarama.PartitionConsumer, count int) []*sarama.ConsumerMessage {
	var all []*sarama.ConsumerMessage
	for len(all) < count {
		select {
		case message := <-part.Messages():
			all = append(all, message)
		case <-w.ctx.Done():
			check(false, "%d of %d records", len(all), count)
		}
	}
	return all
}

func saramaValues(all []*sarama.ConsumerMessage) []string {
	values := make([]string, len(all))
	for index, one := range all {
		values[index] = string(one.Value)
	}
	return values
}

func saramaAcks(w *world) {
	topic := w.saramaTopic(1)
	for _, acks := range []sarama.RequiredAcks{sarama.NoResponse, sarama.WaitForLocal, sarama.WaitForAll} {
		w.saramaSend(topic, 0, numbered("", 50), func(c *sarama.Config) { c.Producer.RequiredAcks = acks })
	}
	thrice(saramaValues(w.saramaRead(topic, 0, 0, 150)), numbered("", 50))
}

func idempotent(c *sarama.Config) {
	c.Producer.Idempotent = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Net.MaxOpenRequests = 1
}

func saramaIdempotent(w *world) {
	topic := w.saramaTopic(4)
	for partition := range int32(4) {
		w.saramaSend(topic, partition, numbered(strconv.Itoa(int(partition))+"/", 500), idempotent)
	}
	for partition := range int32(4) {
		seen := w.saramaRead(topic, partition, 0, 500)
		same(saramaValues(seen), numbered(strconv.Itoa(int(partition))+"/", 500), "values")
		equal(seen[499].Offset, 499, "last offset")
	}
}

func saramaCompression(w *world) {
	topic := w.saramaTopic(1)
	codecs := []sarama.CompressionCodec{
		sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD,
	}
	var wanted []string
	for number, codec := range codecs {
		values := numbered(strings.Repeat("compressible ", 50)+strconv.Itoa(number)+"/", 100)
		w.saramaSend(topic, 0, values, func(c *sarama.Config) { c.Producer.Compression = codec })
		wanted = append(wanted, values...)
	}
	same(saramaValues(w.saramaRead(topic, 0, 0, len(wanted))), wanted, "values")
}

func saramaHeaders(w *world) {
	topic := w.saramaTopic(1)
	at := time.UnixMilli(1_700_000_000_123)
	headers := []sarama.RecordHeader{
		{Key: []byte("trace"), Value: []byte("1")}, {Key: []byte("trace"), Value: []byte("2")}, {Key: []byte("none")},
	}
	producer := w.saramaProducer()
	defer producer.Close()
	_, offset := got2(producer.SendMessage(&sarama.ProducerMessage{
		Topic: topic, Key: sarama.StringEncoder("key"), Value: sarama.StringEncoder("value"), Headers: headers, Timestamp: at,
	}))
	equal(offset, 0, "offset")
	seen := w.saramaRead(topic, 0, 0, 1)[0]
	equal(string(seen.Key)+"="+string(seen.Value), "key=value", "record")
	check(seen.Timestamp.Equal(at), "timestamp %v", seen.Timestamp)
	equal(len(seen.Headers), 3, "headers")
	for index, header := range seen.Headers {
		equal(string(header.Key)+string(header.Value), string(headers[index].Key)+string(headers[index].Value), "header")
	}
}

func got2[A, B any](first A, second B, err error) (A, B) {
	must(err)
	return first, second
}

func saramaNulls(w *world) {
	topic := w.saramaTopic(1)
	producer := w.saramaProducer()
	defer producer.Close()
	got2(producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder("tombstone")}))
	got2(producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder{}}))
	seen := w.saramaRead(topic, 0, 0, 2)
	check(seen[0].Value == nil && string(seen[0].Key) == "tombstone", "tombstone: %v", seen[0])
	check(seen[1].Key == nil && seen[1].Value != nil && len(seen[1].Value) == 0, "empty value: %v", seen[1])
}

func saramaLargeRecords(w *world) {
	topic := w.saramaTopic(1)
	values := numbered(noise(900_000), 5)
	w.saramaSend(topic, 0, values)
	small := w.saramaRead(topic, 0, 0, 5, func(c *sarama.Config) { c.Consumer.Fetch.Default = 1000 })
	same(saramaValues(small), values, "values read one by one")
	same(saramaValues(w.saramaRead(topic, 0, 0, 5)), values, "values")
}

func saramaProduceErrors(w *world) {
	topic := w.saramaTopic(1)
	producer := w.saramaProducer(func(c *sarama.Config) {
		c.Producer.MaxMessageBytes = math.MaxInt32
		c.Metadata.AllowAutoTopicCreation = false
		c.Metadata.Retry.Max = 0
	})
	defer producer.Close()
	_, _, err := producer.SendMessage(messages(topic, 0, []string{noise(2 << 20)})[0])
	check(errors.Is(err, sarama.ErrMessageSizeTooLarge), "too large: %v", err)
	_, _, err = producer.SendMessage(messages("no topic!", 0, []string{""})[0])
	check(errors.Is(err, sarama.ErrInvalidTopic), "invalid topic: %v", err)
	_, _, err = producer.SendMessage(messages(topic+"-unknown", 0, []string{""})[0])
	check(errors.Is(err, sarama.ErrUnknownTopicOrPartition), "unknown topic: %v", err)
	got2(producer.SendMessage(messages(topic, 0, []string{"after"})[0]))
	same(saramaValues(w.saramaRead(topic, 0, 0, 1)), []string{"after"}, "values")
}

func saramaRange(w *world) {
	topic := w.saramaTopic(2)
	w.saramaSend(topic, 1, numbered("", 20))
	same(saramaValues(w.saramaRead(topic, 1, sarama.OffsetOldest, 20)), numbered("", 20), "values from the beginning")
	consumer := got(sarama.NewConsumer([]string{w.bootstrap}, saramaConfig()))
	defer consumer.Close()
	part := got(consumer.ConsumePartition(topic, 1, sarama.OffsetNewest))
	defer part.Close()
	w.saramaSend(topic, 1, []string{"new"})
	same(saramaValues(w.take(part, 1)), []string{"new"}, "values after the end")
	equal(part.HighWaterMarkOffset(), 21, "high watermark")
}

func saramaSeek(w *world) {
	topic := w.saramaTopic(1)
	w.saramaSend(topic, 0, numbered("", 10))
	for _, offset := range []int64{7, 4, 9} {
		wanted := numbered("", 10)[offset:]
		same(saramaValues(w.saramaRead(topic, 0, offset, len(wanted))), wanted, "values")
	}
}

func saramaTimes(w *world) {
	topic := w.saramaTopic(1)
	begun := time.Now().UnixMilli() - 10*hour
	producer := w.saramaProducer()
	defer producer.Close()
	for number := range int64(10) {
		message := messages(topic, 0, []string{"v"})[0]
		message.Timestamp = time.UnixMilli(begun + number*hour)
		got2(producer.SendMessage(message))
	}
	client := got(sarama.NewClient([]string{w.bootstrap}, saramaConfig()))
	defer client.Close()
	for after, wanted := range map[int64]int64{-1: 0, 0: 0, 1: 1, 5 * hour: 5, 9*hour + 1: -1} {
		equal(got(client.GetOffset(topic, 0, begun+after)), wanted, "offset by time")
	}
	equal(got(client.GetOffset(topic, 0, sarama.OffsetOldest)), 0, "first offset")
	equal(got(client.GetOffset(topic, 0, sarama.OffsetNewest)), 10, "end offset")
}

func saramaOutOfRange(w *world) {
	topic := w.saramaTopic(1)
	w.saramaSend(topic, 0, numbered("", 10))
	admin := w.saramaAdmin()
	defer admin.Close()
	must(admin.DeleteRecords(topic, map[int32]int64{0: 5}))
	consumer := got(sarama.NewConsumer([]string{w.bootstrap}, saramaConfig()))
	defer consumer.Close()
	for _, offset := range []int64{2, 1000} {
		_, err := consumer.ConsumePartition(topic, 0, offset)
		check(errors.Is(err, sarama.ErrOffsetOutOfRange), "offset %d: %v", offset, err)
	}
}
