package main

import (
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

var franzSecured = map[string]func(*job){
	"work":   franzWork,
	"knock":  franzKnock,
	"write":  func(j *job) { j.franzSend(1) },
	"read":   franzSecuredRead,
	"create": franzSecuredCreate,
	"stay":   franzStay,
}

func (j *job) franz(options ...kgo.Opt) *kgo.Client {
	options = append(options, kgo.SeedBrokers(j.bootstrap), kgo.RequestRetries(3), kgo.RecordDeliveryTimeout(20*time.Second))
	if config := j.tls(); config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	switch mechanism, user, password := j.sasl(); mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
	}
	return got(kgo.NewClient(options...))
}

func (j *job) franzSend(count int) {
	client := j.franz(kgo.DefaultProduceTopic(j.name))
	defer client.Close()
	for _, value := range numbered("", count) {
		must(client.ProduceSync(j.ctx, kgo.StringRecord(value)).FirstErr())
	}
}

func (j *job) franzMember(group string) *kgo.Client {
	return j.franz(kgo.ConsumerGroup(group), kgo.ConsumeTopics(j.name), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond))
}

func franzWork(j *job) {
	client := j.franz()
	defer client.Close()
	admin := kadm.NewClient(client)
	must(got(admin.CreateTopic(j.ctx, 2, 1, nil, j.name)).Err)
	j.franzSend(workRecords)
	member := j.franzMember(j.name)
	defer member.Close()
	j.checkWork(valuesOf(j.poll(member, workRecords)))
	must(member.CommitUncommittedOffsets(j.ctx))
	committed := int64(0)
	got(admin.FetchOffsets(j.ctx, j.name)).Each(func(part kadm.OffsetResponse) { committed += max(part.At, 0) })
	equal(committed, workRecords, "committed")
	must(got(admin.DeleteTopic(j.ctx, j.name)).Err)
}

func franzKnock(j *job) {
	client := j.franz()
	defer client.Close()
	ctx, cancel := j.within(10 * time.Second)
	defer cancel()
	must(client.Ping(ctx))
}

func franzSecuredRead(j *job) {
	member := j.franzMember(j.name + "-group")
	defer member.Close()
	j.poll(member, 1)
}

func franzSecuredCreate(j *job) {
	client := j.franz()
	defer client.Close()
	must(got(kadm.NewClient(client).CreateTopic(j.ctx, 1, 1, nil, j.name)).Err)
}

// franzStay has many requests in flight all the time: a connection that broke would show as records lost, or twice.
func franzStay(j *job) {
	const inFlight = 1000
	producer, member := j.franz(kgo.DefaultProduceTopic(j.name)), j.franzMember(j.name)
	defer producer.Close()
	defer member.Close()
	end, sent, seen := time.Now().Add(j.seconds), 0, 0
	failed := make(chan error, 1)
	for time.Now().Before(end) || seen < sent {
		for ; sent-seen < inFlight && time.Now().Before(end); sent++ {
			producer.Produce(j.ctx, kgo.StringRecord(strconv.Itoa(sent)), func(_ *kgo.Record, err error) {
				if err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			})
		}
		for _, value := range valuesOf(j.poll(member, min(sent-seen, 1))) {
			equal(value, strconv.Itoa(seen), "the record")
			seen++
		}
		select {
		case err := <-failed:
			must(err)
		default:
		}
	}
	must(member.CommitUncommittedOffsets(j.ctx))
}
