package main

import (
	"context"
	"strconv"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

var saramaSecured = map[string]func(*job){
	"work":   saramaWork,
	"knock":  saramaKnock,
	"write":  func(j *job) { j.saramaSend(1) },
	"read":   func(j *job) { j.saramaRead(j.name+"-group", 1) },
	"create": saramaSecuredCreate,
	"stay":   saramaStay,
}

// conversation is how sarama wants SCRAM to be given, by its own example.
type conversation struct {
	hash scram.HashGeneratorFcn
	*scram.ClientConversation
}

func (c *conversation) Begin(user, password, authorization string) error {
	client, err := c.hash.NewClient(user, password, authorization)
	if err == nil {
		c.ClientConversation = client.NewConversation()
	}
	return err
}

func (j *job) saramaConfig() *sarama.Config {
	config := saramaConfig()
	config.Producer.Partitioner = sarama.NewRoundRobinPartitioner
	config.Metadata.Retry.Max = 1
	config.Admin.Retry.Max = 0
	if secure := j.tls(); secure != nil {
		config.Net.TLS.Enable, config.Net.TLS.Config = true, secure
	}
	mechanism, user, password := j.sasl()
	if mechanism == "" {
		return config
	}
	config.Net.SASL.Enable, config.Net.SASL.Mechanism = true, sarama.SASLMechanism(mechanism)
	config.Net.SASL.User, config.Net.SASL.Password = user, password
	hashes := map[string]scram.HashGeneratorFcn{"SCRAM-SHA-256": scram.SHA256, "SCRAM-SHA-512": scram.SHA512}
	if hash, found := hashes[mechanism]; found {
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{hash: hash} }
	}
	return config
}

func (j *job) saramaProducer() sarama.SyncProducer {
	return got(sarama.NewSyncProducer([]string{j.bootstrap}, j.saramaConfig()))
}

func (j *job) saramaSend(count int) {
	producer := j.saramaProducer()
	defer producer.Close()
	for _, value := range numbered("", count) {
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: j.name, Value: sarama.StringEncoder(value)})
		must(err)
	}
}

// values is a member's handler that passes each value on and commits it.
type values chan string

func (v values) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (v values) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (v values) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			markAndCommit(session, message)
			select {
			case v <- string(message.Value):
			case <-session.Context().Done():
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

// saramaMember consumes until `stop`; errors of the member end the scenario when the next value is asked for.
func (j *job) saramaMember(group string) (next func() string, stop func()) {
	member := got(sarama.NewConsumerGroup([]string{j.bootstrap}, group, j.saramaConfig()))
	ctx, cancel := context.WithCancel(j.ctx)
	seen, failed := make(values), make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := member.Consume(ctx, []string{j.name}, seen); err != nil {
				failed <- err
				return
			}
		}
	}()
	next = func() string {
		select {
		case value := <-seen:
			return value
		case err := <-failed:
			must(err)
		case <-j.ctx.Done():
			check(false, "no record came")
		}
		return ""
	}
	return next, func() { cancel(); member.Close() }
}

func (j *job) saramaRead(group string, count int) []string {
	next, stop := j.saramaMember(group)
	defer stop()
	all := make([]string, count)
	for index := range all {
		all[index] = next()
	}
	return all
}

func (j *job) saramaClusterAdmin() sarama.ClusterAdmin {
	return got(sarama.NewClusterAdmin([]string{j.bootstrap}, j.saramaConfig()))
}

func saramaWork(j *job) {
	admin := j.saramaClusterAdmin()
	defer admin.Close()
	must(admin.CreateTopic(j.name, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1}, false))
	j.saramaSend(workRecords)
	j.checkWork(j.saramaRead(j.name, workRecords))
	offsets, committed := got(admin.ListConsumerGroupOffsets(j.name, map[string][]int32{j.name: {0, 1}})), int64(0)
	for partition := range int32(2) {
		committed += max(offsets.GetBlock(j.name, partition).Offset, 0)
	}
	equal(committed, workRecords, "committed")
	must(admin.DeleteTopic(j.name))
}

func saramaKnock(j *job) {
	client := got(sarama.NewClient([]string{j.bootstrap}, j.saramaConfig()))
	defer client.Close()
	got(client.Topics())
}

func saramaSecuredCreate(j *job) {
	admin := j.saramaClusterAdmin()
	defer admin.Close()
	must(admin.CreateTopic(j.name, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false))
}

func saramaStay(j *job) {
	producer := j.saramaProducer()
	defer producer.Close()
	next, stop := j.saramaMember(j.name)
	defer stop()
	end := time.Now().Add(j.seconds)
	for number := 0; time.Now().Before(end); number++ {
		value := strconv.Itoa(number)
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: j.name, Value: sarama.StringEncoder(value)})
		must(err)
		equal(next(), value, "the record")
	}
}
