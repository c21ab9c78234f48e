package main

import (
	"math/rand"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var franzScenarios = map[string]func(*world){
	"produce-acks":          franzAcks,
	"produce-idempotent":    franzIdempotent,
	"compression":           franzCompression,
	"headers":               franzHeaders,
	"nulls":                 franzNulls,
	"large-records":         franzLargeRecords,
	"produce-errors":        franzProduceErrors,
	"consume-range":         franzRange,
	"seek":                  franzSeek,
	"offsets-for-times":     franzTimes,
	"out-of-range":          franzOutOfRange,
	"group-rebalance":       franzRebalance,
	"group-commit":          franzCommit,
	"group-static":          franzStatic,
	"group-cooperative":     franzCooperative,
	"group-848":             franz848,
	"group-share":           franzShare,
	"topics":                franzTopics,
	"partitions":            franzPartitions,
	"configs":               franzConfigs,
	"cluster":               franzCluster,
	"groups-described":      franzGroupsDescribed,
	"groups-deleted":        franzGroupsDeleted,
	"group-offsets":         franzGroupOffsets,
	"delete-records":        franzDeleteRecords,
	"list-offsets":          franzListOffsets,
	"log-dirs":              franzLogDirs,
	"client-quotas":         franzQuotas,
	"describe-transactions": franzDescribeTransactions,
	"txn-commit":            franzTxnCommit,
	"txn-abort":             franzTxnAbort,
	"txn-offsets":           franzTxnOffsets,
	"txn-fencing":           franzTxnFencing,
}

const hour = int64(3_600_000)

func (w *world) franz(options ...kgo.Opt) *kgo.Client {
	return got(kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(w.bootstrap), kgo.MetadataMinAge(100 * time.Millisecond)}, options...)...))
}

func (w *world) franzAdmin() (*kadm.Client, func()) {
	client := w.franz()
	return kadm.NewClient(client), client.Close
}

// franzTopic creates the scenario's topic.
func (w *world) franzTopic(partitions int32) string {
	admin, done := w.franzAdmin()
	defer done()
	got(admin.CreateTopic(w.ctx, partitions, 1, nil, w.name))
	return w.name
}

func record(topic string, partition int32, value string) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}
}

func records(topic string, partition int32, values []string) []*kgo.Record {
	all := make([]*kgo.Record, len(values))
	for index, value := range values {
		all[index] = record(topic, partition, value)
	}
	return all
}

var manually = kgo.RecordPartitioner(kgo.ManualPartitioner())

// franzSend writes the values to a partition, in order, and waits for all.
func (w *world) franzSend(topic string, partition int32, values []string, options ...kgo.Opt) {
	client := w.franz(append(options, manually)...)
	defer client.Close()
	must(client.ProduceSync(w.ctx, records(topic, partition, values)...).FirstErr())
}

// poll reads until there are `count` records.
func (w *world) poll(client *kgo.Client, count int) []*kgo.Record {
	var all []*kgo.Record
	for len(all) < count {
		fetches := client.PollRecords(w.ctx, count-len(all))
		must(fetches.Err0())
		fetches.EachError(func(_ string, _ int32, err error) { must(err) })
		all = append(all, fetches.Records()...)
	}
	return all
}

func valuesOf(all []*kgo.Record) []string {
	values := make([]string, len(all))
	for index, one := range all {
		values[index] = string(one.Value)
	}
	return values
}

func from(topic string, partition int32, offset kgo.Offset) kgo.Opt {
	return kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: offset}})
}

// franzRead reads the first `count` records of a partition.
func (w *world) franzRead(topic string, partition int32, count int, options ...kgo.Opt) []*kgo.Record {
	client := w.franz(append(options, from(topic, partition, kgo.NewOffset().AtStart()))...)
	defer client.Close()
	return w.poll(client, count)
}

func franzAcks(w *world) {
	topic := w.franzTopic(1)
	for _, acks := range []kgo.Acks{kgo.NoAck(), kgo.LeaderAck(), kgo.AllISRAcks()} {
		w.franzSend(topic, 0, numbered("", 50), kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite())
	}
	thrice(valuesOf(w.franzRead(topic, 0, 150)), numbered("", 50))
}

func franzIdempotent(w *world) {
	topic := w.franzTopic(4)
	client := w.franz(manually)
	defer client.Close()
	id, _, err := client.ProducerID(w.ctx)
	must(err)
	check(id >= 0, "producer id %d", id)
	for partition := range int32(4) {
		for _, one := range records(topic, partition, numbered(strconv.Itoa(int(partition))+"/", 500)) {
			client.Produce(w.ctx, one, nil)
		}
	}
	must(client.Flush(w.ctx))
	for partition := range int32(4) {
		seen := w.franzRead(topic, partition, 500)
		same(valuesOf(seen), numbered(strconv.Itoa(int(partition))+"/", 500), "values")
		equal(seen[499].Offset, 499, "last offset")
		equal(seen[0].ProducerID, id, "producer id of a record")
	}
}

func franzCompression(w *world) {
	topic := w.franzTopic(1)
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}
	var wanted []string
	for number, codec := range codecs {
		values := numbered(strings.Repeat("compressible ", 50)+strconv.Itoa(number)+"/", 100)
		w.franzSend(topic, 0, values, kgo.ProducerBatchCompression(codec))
		wanted = append(wanted, values...)
	}
	seen := w.franzRead(topic, 0, len(wanted))
	same(valuesOf(seen), wanted, "values")
	for number := range codecs {
		equal(int(seen[number*100].Attrs.CompressionType()), number, "codec")
	}
}

func franzHeaders(w *world) {
	topic := w.franzTopic(1)
	at := time.UnixMilli(1_700_000_000_123)
	headers := []kgo.RecordHeader{{Key: "trace", Value: []byte("1")}, {Key: "trace", Value: []byte("2")}, {Key: "none"}}
	client := w.franz()
	defer client.Close()
	sent := &kgo.Record{Topic: topic, Key: []byte("key"), Value: []byte("value"), Headers: headers, Timestamp: at}
	must(client.ProduceSync(w.ctx, sent).FirstErr())
	seen := w.franzRead(topic, 0, 1)[0]
	equal(string(seen.Key)+"="+string(seen.Value), "key=value", "record")
	check(seen.Timestamp.Equal(at), "timestamp %v", seen.Timestamp)
	equal(len(seen.Headers), 3, "headers")
	for index, header := range seen.Headers {
		equal(header.Key+string(header.Value), headers[index].Key+string(headers[index].Value), "header")
		equal(header.Value == nil, headers[index].Value == nil, "null header")
	}
}

func franzNulls(w *world) {
	topic := w.franzTopic(1)
	client := w.franz()
	defer client.Close()
	must(client.ProduceSync(w.ctx, &kgo.Record{Topic: topic, Key: []byte("tombstone")}).FirstErr())
	must(client.ProduceSync(w.ctx, &kgo.Record{Topic: topic, Value: []byte{}}).FirstErr())
	seen := w.franzRead(topic, 0, 2)
	check(seen[0].Value == nil && string(seen[0].Key) == "tombstone", "tombstone: %v", seen[0])
	check(seen[1].Key == nil && seen[1].Value != nil && len(seen[1].Value) == 0, "empty value: %v", seen[1])
}

func noise(size int) string {
	bytes := make([]byte, size)
	rand.New(rand.NewSource(7)).Read(bytes)
	return string(bytes)
}

func franzLargeRecords(w *world) {
	topic := w.franzTopic(1)
	values := numbered(noise(900_000), 5)
	w.franzSend(topic, 0, values, kgo.ProducerBatchMaxBytes(1_000_000))
	small := w.franzRead(topic, 0, 5, kgo.FetchMaxBytes(1000), kgo.FetchMaxPartitionBytes(1000))
	same(valuesOf(small), values, "values read one by one")
	same(valuesOf(w.franzRead(topic, 0, 5)), values, "values")
}

func franzProduceErrors(w *world) {
	topic := w.franzTopic(1)
	client := w.franz(kgo.ProducerBatchMaxBytes(8<<20), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.UnknownTopicRetries(1))
	defer client.Close()
	tooLarge := client.ProduceSync(w.ctx, record(topic, 0, noise(2<<20))).FirstErr()
	mustFail(tooLarge, kerr.MessageTooLarge.Message)
	mustFail(client.ProduceSync(w.ctx, record("no topic!", 0, "")).FirstErr(), kerr.InvalidTopicException.Message)
	unknown := client.ProduceSync(w.ctx, record(topic+"-unknown", 0, "")).FirstErr()
	mustFail(unknown, kerr.UnknownTopicOrPartition.Message)
	must(client.ProduceSync(w.ctx, record(topic, 0, "after")).FirstErr())
	same(valuesOf(w.franzRead(topic, 0, 1)), []string{"after"}, "values")
}

func franzRange(w *world) {
	topic := w.franzTopic(2)
	w.franzSend(topic, 1, numbered("", 20))
	same(valuesOf(w.franzRead(topic, 1, 20)), numbered("", 20), "values from the beginning")
	client := w.franz(from(topic, 1, kgo.NewOffset().AtEnd().Relative(-5)))
	defer client.Close()
	same(valuesOf(w.poll(client, 5)), numbered("", 20)[15:], "values near the end")
	w.franzSend(topic, 1, []string{"new"})
	same(valuesOf(w.poll(client, 1)), []string{"new"}, "values after the end")
}

func franzSeek(w *world) {
	topic := w.franzTopic(1)
	w.franzSend(topic, 0, numbered("", 10))
	client := w.franz(from(topic, 0, kgo.NewOffset().At(7)))
	defer client.Close()
	same(valuesOf(w.poll(client, 3)), numbered("", 10)[7:], "values from 7")
	client.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {0: {Epoch: -1, Offset: 4}}})
	same(valuesOf(w.poll(client, 6)), numbered("", 10)[4:], "values from 4")
}

func franzTimes(w *world) {
	topic := w.franzTopic(1)
	begun := time.Now().UnixMilli() - 10*hour
	for number := range int64(10) {
		client := w.franz()
		one := record(topic, 0, strconv.FormatInt(number, 10))
		one.Timestamp = time.UnixMilli(begun + number*hour)
		must(client.ProduceSync(w.ctx, one).FirstErr())
		client.Close()
	}
	admin, done := w.franzAdmin()
	defer done()
	for after, wanted := range map[int64]int64{-1: 0, 0: 0, 1: 1, 5 * hour: 5} {
		found, _ := got(admin.ListOffsetsAfterMilli(w.ctx, begun+after, topic)).Lookup(topic, 0)
		equal(found.Offset, wanted, "offset")
	}
	client := w.franz(from(topic, 0, kgo.NewOffset().AfterMilli(begun+7*hour)))
	defer client.Close()
	same(valuesOf(w.poll(client, 3)), numbered("", 10)[7:], "values after a time")
}

func franzOutOfRange(w *world) {
	topic := w.franzTopic(1)
	w.franzSend(topic, 0, numbered("", 10))
	reset := w.franz(from(topic, 0, kgo.NewOffset().At(1000)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer reset.Close()
	same(valuesOf(w.poll(reset, 10)), numbered("", 10), "values after a reset")
	strict := w.franz(from(topic, 0, kgo.NewOffset().At(1000)), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	defer strict.Close()
	mustFail(strict.PollFetches(w.ctx).Err(), kerr.OffsetOutOfRange.Message)
}
