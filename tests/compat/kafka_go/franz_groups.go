package main

import (
	"context"
	"sort"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A member of a group that polls until it is stopped, and knows what it owns and has seen.
type member struct {
	client *kgo.Client
	cancel context.CancelFunc
	ended  chan struct{}

	lock    sync.Mutex
	owned   map[int32]bool
	revoked int
	seen    []string
}

// quick makes members notice each other at once.
var quick = []kgo.Opt{kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(200 * time.Millisecond)}

func (w *world) join(group, topic string, options ...kgo.Opt) *member {
	ctx, cancel := context.WithCancel(w.ctx)
	m := &member{cancel: cancel, ended: make(chan struct{}), owned: map[int32]bool{}}
	taken := func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
		m.lock.Lock()
		defer m.lock.Unlock()
		for _, partition := range lost[topic] {
			delete(m.owned, partition)
			m.revoked++
		}
	}
	given := func(_ context.Context, _ *kgo.Client, added map[string][]int32) {
		m.lock.Lock()
		defer m.lock.Unlock()
		for _, partition := range added[topic] {
			m.owned[partition] = true
		}
	}
	base := []kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.OnPartitionsAssigned(given),
		kgo.OnPartitionsRevoked(taken), kgo.OnPartitionsLost(taken), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	m.client = w.franz(append(append(base, quick...), options...)...)
	go m.pollAll(ctx)
	return m
}

func (m *member) pollAll(ctx context.Context) {
	defer close(m.ended)
	for ctx.Err() == nil {
		fetches := m.client.PollFetches(ctx)
		m.lock.Lock()
		m.seen = append(m.seen, valuesOf(fetches.Records())...)
		m.lock.Unlock()
	}
}

// stop ends the polling; the member stays in the group until its client is closed.
func (m *member) stop() {
	m.cancel()
	<-m.ended
}

func (m *member) leave() {
	m.stop()
	m.client.Close()
}

func (m *member) share() int {
	m.lock.Lock()
	defer m.lock.Unlock()
	return len(m.owned)
}

func (m *member) read() []string {
	m.lock.Lock()
	defer m.lock.Unlock()
	seen := append([]string{}, m.seen...)
	sort.Strings(seen)
	return seen
}

// franzPair lets two members share four partitions, and one of them take all when the other leaves.
func franzPair(w *world, options ...kgo.Opt) (first *member) {
	topic := w.franzTopic(4)
	first = w.join(w.name, topic, options...)
	w.until("the first member owns all", func() bool { return first.share() == 4 })
	first.lock.Lock()
	first.revoked = 0
	first.lock.Unlock()
	second := w.join(w.name, topic, options...)
	w.until("an even share", func() bool { return first.share() == 2 && second.share() == 2 })
	for partition := range int32(4) {
		w.franzSend(topic, partition, numbered(string(rune('a'+partition)), 10))
	}
	w.until("all is read", func() bool { return len(first.read())+len(second.read()) == 40 })
	equal(len(first.read()), 20, "records of the first member")
	must(first.client.CommitUncommittedOffsets(w.ctx))
	must(second.client.CommitUncommittedOffsets(w.ctx))
	second.leave()
	w.until("the first member owns all again", func() bool { return first.share() == 4 })
	for partition := range int32(4) {
		w.franzSend(topic, partition, []string{"last"})
	}
	w.until("the last is read", func() bool { return len(first.read()) == 24 })
	return first
}

func franzRebalance(w *world) {
	for _, balancer := range []kgo.GroupBalancer{kgo.RangeBalancer(), kgo.RoundRobinBalancer(), kgo.StickyBalancer()} {
		inner := *w
		inner.name += "-" + balancer.ProtocolName()
		first := franzPair(&inner, kgo.Balancers(balancer))
		check(first.revoked >= 4, "an eager member gives up all it owns: %d", first.revoked)
		first.leave()
	}
}

func franzCooperative(w *world) {
	first := franzPair(w, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	equal(first.revoked, 2, "partitions that the first member gave up")
	first.leave()
}

func franz848(w *world) {
	first := franzPair(w, kgo.ServerSideBalancer())
	equal(first.revoked, 2, "partitions that the first member gave up")
	admin, done := w.franzAdmin()
	defer done()
	described := got(admin.DescribeConsumerGroups(w.ctx, w.name))[w.name]
	must(described.Err)
	equal(len(described.Members), 1, "members")
	equal(described.State, "Stable", "state")
	equal(described.AssignorName, "uniform", "assignor")
	first.leave()
}

func franzCommit(w *world) {
	topic := w.franzTopic(1)
	w.franzSend(topic, 0, numbered("", 30))
	options := append([]kgo.Opt{
		kgo.ConsumerGroup(w.name), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}, quick...)
	first := w.franz(options...)
	read := w.poll(first, 10)
	same(valuesOf(read), numbered("", 10), "values of the first")
	must(first.CommitRecords(w.ctx, read...))
	first.Close()
	second := w.franz(options...)
	same(valuesOf(w.poll(second, 20)), numbered("", 30)[10:], "values of the second")
	second.Close()
	admin, done := w.franzAdmin()
	defer done()
	committed, _ := got(admin.FetchOffsets(w.ctx, w.name)).Lookup(topic, 0)
	equal(committed.At, 10, "committed offset")
	check(committed.Metadata != "", "franz-go commits its member id as metadata")
}

func franzStatic(w *world) {
	topic := w.franzTopic(4)
	options := []kgo.Opt{kgo.InstanceID("one"), kgo.Balancers(kgo.RangeBalancer())}
	first := w.join(w.name, topic, options...)
	other := w.join(w.name, topic, kgo.InstanceID("two"), kgo.Balancers(kgo.RangeBalancer()))
	w.until("an even share", func() bool { return first.share() == 2 && other.share() == 2 })
	w.until("the same generation", func() bool { return generation(first.client) == generation(other.client) })
	before := generation(other.client)
	first.leave() // a static member does not tell
	again := w.join(w.name, topic, options...)
	w.until("its share again", func() bool { return again.share() == 2 })
	equal(generation(again.client), before, "generation after a restart")
	equal(generation(other.client), before, "generation of the other")
	admin, done := w.franzAdmin()
	defer done()
	described := got(admin.DescribeGroups(w.ctx, w.name))[w.name]
	equal(len(described.Members), 2, "members")
	equal(*described.Members[0].InstanceID, "one", "instance id")
	again.leave()
	other.leave()
}

func generation(client *kgo.Client) int32 {
	_, number := client.GroupMetadata()
	return number
}

// franzGroupConfig sets a configuration of the group that is named after the scenario.
func (w *world) franzGroupConfig(name, value string) {
	client := w.franz()
	defer client.Close()
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = name, &value
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, w.name
	resource.Configs = append(resource.Configs, config)
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	must(kerr.ErrorForCode(got(request.RequestWith(w.ctx, client)).Resources[0].ErrorCode))
}

func franzShare(w *world) {
	topic := w.franzTopic(2)
	w.franzGroupConfig("share.auto.offset.reset", "earliest")
	client := w.franz(kgo.ShareGroup(w.name), kgo.ConsumeTopics(topic))
	defer client.Close()
	w.franzSend(topic, 0, numbered("a", 10))
	w.franzSend(topic, 1, numbered("b", 10))
	seen := map[string]int{}
	released := false
	for len(seen) < 20 {
		fetches := client.PollFetches(w.ctx)
		must(fetches.Err0())
		for _, one := range fetches.Records() {
			if !released && string(one.Value) == "a3" {
				released = true
				one.Ack(kgo.AckRelease)
				continue
			}
			seen[string(one.Value)] = int(one.DeliveryCount())
			one.Ack(kgo.AckAccept)
		}
		must(client.FlushAcks(w.ctx))
	}
	equal(seen["a3"], 2, "deliveries of the released record")
	equal(seen["b3"], 1, "deliveries of another record")
}
