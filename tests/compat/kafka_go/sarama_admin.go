package main

import (
	"errors"
	"slices"

	"github.com/IBM/sarama"
)

func saramaTopics(w *world) {
	admin := w.saramaAdmin()
	defer admin.Close()
	hourly := "3600000"
	detail := &sarama.TopicDetail{
		NumPartitions: 3, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &hourly},
	}
	must(admin.CreateTopic(w.name, detail, true))
	must(admin.CreateTopic(w.name, detail, false))
	err := admin.CreateTopic(w.name, detail, false)
	check(errors.Is(err, sarama.ErrTopicAlreadyExists), "created twice: %v", err)
	listed := got(admin.ListTopics())[w.name]
	equal(listed.NumPartitions, 3, "partitions as listed")
	equal(*listed.ConfigEntries["retention.ms"], hourly, "retention.ms")
	described := got(admin.DescribeTopics([]string{w.name}))[0]
	equal(len(described.Partitions), 3, "partitions as described")
	must(admin.DeleteTopic(w.name))
	w.until("the topic is gone", func() bool {
		_, found := got(admin.ListTopics())[w.name]
		return !found
	})
	err = admin.DeleteTopic(w.name)
	check(errors.Is(err, sarama.ErrUnknownTopicOrPartition), "deleted twice: %v", err)
}

func saramaPartitions(w *world) {
	topic := w.saramaTopic(1)
	admin := w.saramaAdmin()
	defer admin.Close()
	must(admin.CreatePartitions(topic, 3, nil, true))
	must(admin.CreatePartitions(topic, 3, nil, false))
	w.until("three partitions", func() bool { return got(admin.ListTopics())[topic].NumPartitions == 3 })
	mustFail(admin.CreatePartitions(topic, 2, nil, false), "partitions")
	w.saramaSend(topic, 2, []string{"new"})
	same(saramaValues(w.saramaRead(topic, 2, 0, 1)), []string{"new"}, "values")
}

func saramaConfigs(w *world) {
	topic := w.saramaTopic(1)
	admin := w.saramaAdmin()
	defer admin.Close()
	value := func(key string) string {
		entries := got(admin.DescribeConfig(sarama.ConfigResource{
			Type: sarama.TopicResource, Name: topic, ConfigNames: []string{key},
		}))
		return entries[0].Value
	}
	equal(value("max.message.bytes"), "1048588", "max.message.bytes")
	alter := func(operation sarama.IncrementalAlterConfigsOperation, value *string) error {
		entry := sarama.IncrementalAlterConfigsEntry{Operation: operation, Value: value}
		entries := map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": entry}
		return admin.IncrementalAlterConfig(sarama.TopicResource, topic, entries, false)
	}
	soon, wrong := "60000", "soon"
	must(alter(sarama.IncrementalAlterConfigsOperationSet, &soon))
	w.until("retention.ms", func() bool { return value("retention.ms") == soon })
	check(alter(sarama.IncrementalAlterConfigsOperationSet, &wrong) != nil, "a wrong value was taken")
	must(alter(sarama.IncrementalAlterConfigsOperationDelete, nil))
	w.until("the default", func() bool { return value("retention.ms") == "604800000" })
	must(admin.AlterConfig(sarama.TopicResource, topic, map[string]*string{"retention.ms": &soon}, false))
	w.until("retention.ms, set by the older call", func() bool { return value("retention.ms") == soon })
}

func saramaCluster(w *world) {
	admin := w.saramaAdmin()
	defer admin.Close()
	known, controller := got2(admin.DescribeCluster())
	equal(len(known), brokers(), "brokers")
	isController := func(broker *sarama.Broker) bool { return broker.ID() == controller }
	check(slices.ContainsFunc(known, isController), "controller: %d", controller)
	isHere := func(broker *sarama.Broker) bool { return broker.Addr() == w.bootstrap }
	check(slices.ContainsFunc(known, isHere), "no broker is at %s", w.bootstrap)
}

// saramaMember is the only member of a group, with ten records read and five of them committed.
func (w *world) saramaMember() (topic string, only *handler) {
	topic = w.saramaTopic(2)
	w.saramaSend(topic, 0, numbered("", 10))
	only = w.saramaJoin(w.name, topic, func(c *sarama.Config) { c.ClientID = "described" })
	only.each = func(session sarama.ConsumerGroupSession, message *sarama.ConsumerMessage) {
		if message.Offset < 5 {
			markAndCommit(session, message)
		}
	}
	w.until("all is read", func() bool { return len(only.read()) == 10 })
	return topic, only
}

func saramaGroupsDescribed(w *world) {
	topic, only := w.saramaMember()
	defer only.leave()
	admin := w.saramaAdmin()
	defer admin.Close()
	equal(got(admin.ListConsumerGroups())[w.name], "consumer", "protocol type as listed")
	described := got(admin.DescribeConsumerGroups([]string{w.name}))[0]
	equal(described.State+" "+described.Protocol, "Stable range", "described")
	equal(len(described.Members), 1, "members")
	for _, member := range described.Members {
		equal(member.ClientId, "described", "client id")
		equal(len(got(member.GetMemberAssignment()).Topics[topic]), 2, "partitions")
	}
}

func saramaGroupsDeleted(w *world) {
	_, only := w.saramaMember()
	admin := w.saramaAdmin()
	defer admin.Close()
	err := admin.DeleteConsumerGroup(w.name)
	check(errors.Is(err, sarama.ErrNonEmptyGroup), "deleted, though not empty: %v", err)
	only.leave()
	must(admin.DeleteConsumerGroup(w.name))
	_, found := got(admin.ListConsumerGroups())[w.name]
	check(!found, "the group is listed")
	err = admin.DeleteConsumerGroup(w.name)
	check(errors.Is(err, sarama.ErrGroupIDNotFound), "deleted twice: %v", err)
}

func saramaGroupOffsets(w *world) {
	topic, only := w.saramaMember()
	admin := w.saramaAdmin()
	defer admin.Close()
	committed := func(partition int32) int64 {
		answer := got(admin.ListConsumerGroupOffsets(w.name, map[string][]int32{topic: {0, 1}}))
		return answer.GetBlock(topic, partition).Offset
	}
	equal(committed(0), 5, "committed")
	err := admin.DeleteConsumerGroupOffset(w.name, topic, 0)
	check(errors.Is(err, sarama.ErrGroupSubscribedToTopic), "deleted, though subscribed: %v", err)
	only.leave()
	offsets := map[int32]sarama.OffsetAndMetadata{0: {Offset: 2, LeaderEpoch: -1}, 1: {Offset: 0, LeaderEpoch: -1}}
	altered := got(admin.AlterConsumerGroupOffsets(w.name, map[string]map[int32]sarama.OffsetAndMetadata{topic: offsets}, nil))
	equal(altered.Errors[topic][0], sarama.ErrNoError, "error of a reset")
	equal(committed(0), 2, "committed after a reset")
	must(admin.DeleteConsumerGroupOffset(w.name, topic, 0))
	equal(committed(0), -1, "committed after deletion")
	equal(committed(1), 0, "committed in the other partition")
}

func saramaDeleteRecords(w *world) {
	topic := w.saramaTopic(1)
	w.saramaSend(topic, 0, numbered("", 10))
	admin := w.saramaAdmin()
	defer admin.Close()
	must(admin.DeleteRecords(topic, map[int32]int64{0: 4}))
	same(saramaValues(w.saramaRead(topic, 0, sarama.OffsetOldest, 6)), numbered("", 10)[4:], "values")
	check(admin.DeleteRecords(topic, map[int32]int64{0: 40}) != nil, "deleted beyond the end")
}

func saramaListOffsets(w *world) {
	topic := w.saramaTopic(1)
	w.saramaSend(topic, 0, numbered("", 10))
	admin := w.saramaAdmin()
	defer admin.Close()
	for asked, wanted := range map[int64]int64{sarama.OffsetOldest: 0, sarama.OffsetNewest: 10} {
		for _, level := range []sarama.IsolationLevel{sarama.ReadUncommitted, sarama.ReadCommitted} {
			options := &sarama.ListOffsetsOptions{IsolationLevel: level}
			listed := got(admin.ListOffsets(map[string]map[int32]int64{topic: {0: asked}}, options))[topic][0]
			equal(error(sarama.ErrNoError), listed.Err, "error")
			equal(listed.Offset, wanted, "offset")
		}
	}
}

func saramaLogDirs(w *world) {
	topic := w.saramaTopic(1)
	w.saramaSend(topic, 0, numbered("", 10))
	admin := w.saramaAdmin()
	defer admin.Close()
	brokers, _ := got2(admin.DescribeCluster())
	found := false
	for _, dir := range got(admin.DescribeLogDirs([]int32{brokers[0].ID()}))[brokers[0].ID()] {
		equal(dir.ErrorCode, sarama.ErrNoError, "error")
		for _, one := range dir.Topics {
			found = found || one.Topic == topic && one.Partitions[0].Size > 0
		}
	}
	check(found, "the topic is in no log directory")
}

func saramaQuotas(w *world) {
	admin := w.saramaAdmin()
	defer admin.Close()
	entity := []sarama.QuotaEntityComponent{{
		EntityType: sarama.QuotaEntityClientID, MatchType: sarama.QuotaMatchExact, Name: w.name,
	}}
	filter := []sarama.QuotaFilterComponent{{
		EntityType: sarama.QuotaEntityClientID, MatchType: sarama.QuotaMatchExact, Match: w.name,
	}}
	described := func() []sarama.DescribeClientQuotasEntry { return got(admin.DescribeClientQuotas(filter, true)) }
	must(admin.AlterClientQuotas(entity, sarama.ClientQuotasOp{Key: "producer_byte_rate", Value: 1e6}, false))
	w.until("the quota is told", func() bool { return len(described()) == 1 })
	equal(described()[0].Values["producer_byte_rate"], 1e6, "quota")
	must(admin.AlterClientQuotas(entity, sarama.ClientQuotasOp{Key: "producer_byte_rate", Remove: true}, false))
	w.until("the quota is gone", func() bool { return len(described()) == 0 })
}
