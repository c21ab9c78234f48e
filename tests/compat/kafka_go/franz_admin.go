package main

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func franzTopics(w *world) {
	admin, done := w.franzAdmin()
	defer done()
	hourly := "3600000"
	created := got(admin.CreateTopic(w.ctx, 3, 1, map[string]*string{"retention.ms": &hourly}, w.name))
	equal(created.NumPartitions, 3, "partitions told at creation")
	_, err := admin.CreateTopic(w.ctx, 3, 1, nil, w.name)
	mustFail(err, kerr.TopicAlreadyExists.Message)
	_, err = admin.CreateTopic(w.ctx, 3, 1, nil, "bad name!")
	mustFail(err, kerr.InvalidTopicException.Message)
	topics := got(admin.ListTopics(w.ctx))
	check(topics.Has(w.name), "the topic is not listed")
	equal(len(topics[w.name].Partitions), 3, "partitions")
	equal(topics[w.name].ID, created.ID, "topic id")
	got(admin.DeleteTopic(w.ctx, w.name))
	w.until("the topic is gone", func() bool { return !got(admin.ListTopics(w.ctx)).Has(w.name) })
	_, err = admin.DeleteTopic(w.ctx, w.name)
	mustFail(err, kerr.UnknownTopicOrPartition.Message)
}

func franzPartitions(w *world) {
	topic := w.franzTopic(1)
	admin, done := w.franzAdmin()
	defer done()
	must(got(admin.ValidateUpdatePartitions(w.ctx, 3, topic)).Error())
	must(got(admin.UpdatePartitions(w.ctx, 3, topic)).Error())
	w.until("three partitions", func() bool {
		return len(got(admin.ListTopics(w.ctx, topic))[topic].Partitions) == 3
	})
	mustFail(got(admin.UpdatePartitions(w.ctx, 2, topic)).Error(), kerr.InvalidPartitions.Message)
	w.franzSend(topic, 2, []string{"new"})
	same(valuesOf(w.franzRead(topic, 2, 1)), []string{"new"}, "values")
}

func franzConfigs(w *world) {
	topic := w.franzTopic(1)
	admin, done := w.franzAdmin()
	defer done()
	value := func(key string) string {
		described := got(admin.DescribeTopicConfigs(w.ctx, topic))[0]
		must(described.Err)
		for _, config := range described.Configs {
			if config.Key == key {
				return *config.Value
			}
		}
		return ""
	}
	equal(value("max.message.bytes"), "1048588", "max.message.bytes")
	soon := "60000"
	set := kadm.AlterConfig{Op: kadm.SetConfig, Name: "retention.ms", Value: &soon}
	must(got(admin.AlterTopicConfigs(w.ctx, []kadm.AlterConfig{set}, topic))[0].Err)
	w.until("retention.ms", func() bool { return value("retention.ms") == soon })
	compact := "compact"
	policy := kadm.AlterConfig{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: &compact}
	must(got(admin.AlterTopicConfigs(w.ctx, []kadm.AlterConfig{policy}, topic))[0].Err)
	w.until("cleanup.policy", func() bool { return value("cleanup.policy") == "delete,compact" })
	back := kadm.AlterConfig{Op: kadm.DeleteConfig, Name: "retention.ms"}
	must(got(admin.AlterTopicConfigs(w.ctx, []kadm.AlterConfig{back}, topic))[0].Err)
	w.until("the default", func() bool { return value("retention.ms") == "604800000" })
	wrong := kadm.AlterConfig{Op: kadm.SetConfig, Name: "retention.ms", Value: &compact}
	mustFail(got(admin.AlterTopicConfigs(w.ctx, []kadm.AlterConfig{wrong}, topic))[0].Err, kerr.InvalidConfig.Message)
	broker := got(admin.DescribeBrokerConfigs(w.ctx))
	check(len(broker) > 0 && broker[0].Err == nil, "configurations of the brokers: %v", broker)
}

func franzCluster(w *world) {
	admin, done := w.franzAdmin()
	defer done()
	metadata := got(admin.BrokerMetadata(w.ctx))
	equal(len(metadata.Brokers), brokers(), "brokers")
	isController := func(broker kgo.BrokerMetadata) bool { return broker.NodeID == metadata.Controller }
	check(slices.ContainsFunc(metadata.Brokers, isController), "controller: %d", metadata.Controller)
	check(metadata.Cluster != "", "no cluster id")
	versions := got(admin.ApiVersions(w.ctx))
	equal(len(versions), brokers(), "brokers that tell versions")
	for _, one := range versions {
		must(one.Err)
		guess := one.VersionGuess()
		check(guess >= "v4.0" || guess == "at least v3.9", "guessed to be Kafka %s", guess) // 4.0 brought streams groups
	}
}

// franzMember is the only member of a group, with ten records read and five of them committed.
func (w *world) franzMember() (topic string, client *kgo.Client) {
	topic = w.franzTopic(2)
	w.franzSend(topic, 0, numbered("", 10))
	client = w.franz(append([]kgo.Opt{
		kgo.ConsumerGroup(w.name), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.ClientID("described"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}, quick...)...)
	must(client.CommitRecords(w.ctx, w.poll(client, 10)[:5]...))
	return topic, client
}

func franzGroupsDescribed(w *world) {
	topic, client := w.franzMember()
	defer client.Close()
	admin, done := w.franzAdmin()
	defer done()
	listed, found := got(admin.ListGroups(w.ctx))[w.name]
	check(found, "the group is not listed")
	equal(listed.State+" "+listed.ProtocolType, "Stable consumer", "listed")
	_, found = got(admin.ListGroups(w.ctx, "Empty"))[w.name]
	check(!found, "the group is listed as empty")
	described := got(admin.DescribeGroups(w.ctx, w.name))[w.name]
	must(described.Err)
	equal(described.State+" "+described.Protocol, "Stable cooperative-sticky", "described")
	equal(len(described.Members), 1, "members")
	equal(described.Members[0].ClientID, "described", "client id")
	check(described.AssignedPartitions().Lookup(topic, 1), "not assigned: %v", described.AssignedPartitions())
	lag := got(admin.Lag(w.ctx, w.name))[w.name]
	equal(lag.Lag[topic][0].Lag, 5, "lag")
}

func franzGroupsDeleted(w *world) {
	_, client := w.franzMember()
	admin, done := w.franzAdmin()
	defer done()
	_, err := admin.DeleteGroup(w.ctx, w.name)
	mustFail(err, kerr.NonEmptyGroup.Message)
	client.Close()
	got(admin.DeleteGroup(w.ctx, w.name))
	check(!slices.Contains(got(admin.ListGroups(w.ctx)).Groups(), w.name), "the group is listed")
	_, err = admin.DeleteGroup(w.ctx, w.name)
	mustFail(err, kerr.GroupIDNotFound.Message)
}

func franzGroupOffsets(w *world) {
	topic, client := w.franzMember()
	admin, done := w.franzAdmin()
	defer done()
	committed := func(partition int32) int64 {
		found, held := got(admin.FetchOffsets(w.ctx, w.name)).Lookup(topic, partition)
		if !held {
			return -1
		}
		return found.At
	}
	equal(committed(0), 5, "committed")
	one := got(admin.DeleteOffsets(w.ctx, w.name, kadm.TopicsSet{topic: {0: {}}}))
	mustFail(one.Error(), kerr.GroupSubscribedToTopic.Message)
	client.Close()
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, 0, 2, -1)
	offsets.AddOffset(topic, 1, 0, -1)
	must(admin.CommitAllOffsets(w.ctx, w.name, offsets))
	equal(committed(0), 2, "committed after a reset")
	must(got(admin.DeleteOffsets(w.ctx, w.name, kadm.TopicsSet{topic: {0: {}}})).Error())
	equal(committed(0), -1, "committed after deletion")
	equal(committed(1), 0, "committed in the other partition")
}

func franzDeleteRecords(w *world) {
	topic := w.franzTopic(1)
	w.franzSend(topic, 0, numbered("", 10))
	admin, done := w.franzAdmin()
	defer done()
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, 0, 4, -1)
	deleted, _ := got(admin.DeleteRecords(w.ctx, offsets)).Lookup(topic, 0)
	must(deleted.Err)
	equal(deleted.LowWatermark, 4, "low watermark")
	same(valuesOf(w.franzRead(topic, 0, 6)), numbered("", 10)[4:], "values")
	beyond := kadm.Offsets{}
	beyond.AddOffset(topic, 0, 40, -1)
	mustFail(got(admin.DeleteRecords(w.ctx, beyond)).Error(), kerr.OffsetOutOfRange.Message)
}

func franzListOffsets(w *world) {
	topic := w.franzTopic(1)
	w.franzSend(topic, 0, numbered("", 10))
	admin, done := w.franzAdmin()
	defer done()
	offset := func(listed kadm.ListedOffsets, err error) int64 {
		must(err)
		found, held := listed.Lookup(topic, 0)
		check(held, "no offset")
		must(found.Err)
		return found.Offset
	}
	equal(offset(admin.ListStartOffsets(w.ctx, topic)), 0, "start")
	equal(offset(admin.ListEndOffsets(w.ctx, topic)), 10, "end")
	equal(offset(admin.ListCommittedOffsets(w.ctx, topic)), 10, "last stable offset")
	latest := offset(admin.ListMaxTimestampOffsets(w.ctx, topic))
	check(latest >= 0 && latest < 10, "offset of the greatest timestamp: %d", latest)
	equal(offset(admin.ListLocalLogStartOffsets(w.ctx, topic)), 0, "start of the local log")
	epochs := kadm.OffsetForLeaderEpochRequest{}
	epochs.Add(topic, 0, got(admin.ListEndOffsets(w.ctx, topic))[topic][0].LeaderEpoch)
	found := got(admin.OffsetForLeaderEpoch(w.ctx, epochs))[topic][0]
	must(found.Err)
	equal(found.EndOffset, 10, "end of the leader epoch")
}

func franzLogDirs(w *world) {
	topic := w.franzTopic(1)
	w.franzSend(topic, 0, numbered("", 10))
	admin, done := w.franzAdmin()
	defer done()
	found := false
	got(admin.DescribeAllLogDirs(w.ctx, nil)).Each(func(dir kadm.DescribedLogDir) {
		must(dir.Err)
		partition, held := dir.Topics.Lookup(topic, 0)
		found = found || held && partition.Size > 0
	})
	check(found, "the topic is in no log directory")
}

func franzQuotas(w *world) {
	admin, done := w.franzAdmin()
	defer done()
	entity := kadm.ClientQuotaEntity{{Type: "client-id", Name: &w.name}}
	alter := func(op kadm.AlterClientQuotaOp) {
		entry := kadm.AlterClientQuotaEntry{Entity: entity, Ops: []kadm.AlterClientQuotaOp{op}}
		must(got(admin.AlterClientQuotas(w.ctx, []kadm.AlterClientQuotaEntry{entry}))[0].Err)
	}
	described := func() kadm.DescribedClientQuotas {
		component := kadm.DescribeClientQuotaComponent{Type: "client-id", MatchName: &w.name}
		return got(admin.DescribeClientQuotas(w.ctx, true, []kadm.DescribeClientQuotaComponent{component}))
	}
	alter(kadm.AlterClientQuotaOp{Key: "producer_byte_rate", Value: 1_000_000})
	w.until("the quota is told", func() bool { return len(described()) == 1 })
	value := described()[0].Values[0]
	check(value.Key == "producer_byte_rate" && value.Value == 1_000_000, "quota: %v", value)
	alter(kadm.AlterClientQuotaOp{Key: "producer_byte_rate", Remove: true})
	w.until("the quota is gone", func() bool { return len(described()) == 0 })
}
