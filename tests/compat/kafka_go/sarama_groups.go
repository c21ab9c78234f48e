package main

import (
	"context"
	"sort"
	"sync"

	"github.com/IBM/sarama"
)

// A member of a group that consumes until it leaves, and knows what it owns and has seen.
type handler struct {
	group  sarama.ConsumerGroup
	cancel context.CancelFunc
	ended  chan struct{}
	each   func(sarama.ConsumerGroupSession, *sarama.ConsumerMessage)

	lock       sync.Mutex
	owned      map[int32]bool
	generation int32
	claims     int
	seen       []string
}

func (h *handler) Setup(session sarama.ConsumerGroupSession) error {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.generation = session.GenerationID()
	return nil
}

func (h *handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	h.lock.Lock()
	h.owned[claim.Partition()] = true
	h.claims++
	h.lock.Unlock()
	for message := range claim.Messages() {
		h.lock.Lock()
		h.seen = append(h.seen, string(message.Value))
		h.generation = session.GenerationID()
		h.lock.Unlock()
		h.each(session, message)
	}
	h.lock.Lock()
	defer h.lock.Unlock()
	delete(h.owned, claim.Partition())
	return nil
}

func markAndCommit(session sarama.ConsumerGroupSession, message *sarama.ConsumerMessage) {
	session.MarkMessage(message, "noted")
	session.Commit()
}

func (w *world) saramaJoin(group, topic string, settings ...setting) *handler {
	ctx, cancel := context.WithCancel(w.ctx)
	h := &handler{cancel: cancel, ended: make(chan struct{}), owned: map[int32]bool{}, each: markAndCommit}
	h.group = got(sarama.NewConsumerGroup([]string{w.bootstrap}, group, saramaConfig(settings...)))
	go func() {
		defer close(h.ended)
		for ctx.Err() == nil {
			if h.group.Consume(ctx, []string{topic}, h) != nil {
				return
			}
		}
	}()
	return h
}

func (h *handler) leave() {
	h.cancel()
	<-h.ended
	must(h.group.Close())
}

func (h *handler) share() int {
	h.lock.Lock()
	defer h.lock.Unlock()
	return len(h.owned)
}

func (h *handler) read() []string {
	h.lock.Lock()
	defer h.lock.Unlock()
	seen := append([]string{}, h.seen...)
	sort.Strings(seen)
	return seen
}

// saramaPair lets two members share four partitions, and one of them take all when the other leaves.
func saramaPair(w *world, settings ...setting) *handler {
	topic := w.saramaTopic(4)
	first := w.saramaJoin(w.name, topic, settings...)
	w.until("the first member owns all", func() bool { return first.share() == 4 })
	second := w.saramaJoin(w.name, topic, settings...)
	w.until("an even share", func() bool { return first.share() == 2 && second.share() == 2 })
	for partition := range int32(4) {
		w.saramaSend(topic, partition, numbered(string(rune('a'+partition)), 10))
	}
	w.until("all is read", func() bool { return len(first.read())+len(second.read()) == 40 })
	equal(len(first.read()), 20, "records of the first member")
	second.leave()
	w.until("the first member owns all again", func() bool { return first.share() == 4 })
	for partition := range int32(4) {
		w.saramaSend(topic, partition, []string{"last"})
	}
	w.until("the last is read", func() bool { return len(first.read()) == 24 })
	return first
}

func by(strategy sarama.BalanceStrategy) setting {
	return func(c *sarama.Config) {
		c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	}
}

func saramaRebalance(w *world) {
	for _, strategy := range []sarama.BalanceStrategy{
		sarama.NewBalanceStrategyRange(), sarama.NewBalanceStrategyRoundRobin(), sarama.NewBalanceStrategySticky(),
	} {
		inner := *w
		inner.name += "-" + strategy.Name()
		saramaPair(&inner, by(strategy)).leave()
	}
}

func saramaCooperative(w *world) {
	first := saramaPair(w, by(sarama.NewBalanceStrategyCooperativeSticky()))
	equal(first.claims, 6, "claims of the first member: four, and two again")
	first.leave()
}

func saramaCommit(w *world) {
	topic := w.saramaTopic(1)
	w.saramaSend(topic, 0, numbered("", 30))
	first := w.saramaJoin(w.name, topic)
	first.each = func(session sarama.ConsumerGroupSession, message *sarama.ConsumerMessage) {
		if message.Offset < 10 {
			markAndCommit(session, message)
		}
	}
	w.until("all is read", func() bool { return len(first.read()) == 30 })
	first.leave()
	admin := w.saramaAdmin()
	defer admin.Close()
	block := got(admin.ListConsumerGroupOffsets(w.name, map[string][]int32{topic: {0}})).GetBlock(topic, 0)
	equal(block.Offset, 10, "committed offset")
	equal(block.Metadata, "noted", "metadata")
	second := w.saramaJoin(w.name, topic)
	w.until("the rest is read", func() bool { return len(second.read()) == 20 })
	second.leave()
}

func saramaStatic(w *world) {
	topic := w.saramaTopic(4)
	called := func(name string) setting {
		return func(c *sarama.Config) { c.Consumer.Group.InstanceId = name }
	}
	first, other := w.saramaJoin(w.name, topic, called("one")), w.saramaJoin(w.name, topic, called("two"))
	w.until("an even share", func() bool { return first.share() == 2 && other.share() == 2 })
	before := other.generation
	first.leave() // a static member does not tell
	again := w.saramaJoin(w.name, topic, called("one"))
	w.until("its share again", func() bool { return again.share() == 2 })
	equal(again.generation, before, "generation after a restart")
	admin := w.saramaAdmin()
	defer admin.Close()
	described := got(admin.DescribeConsumerGroups([]string{w.name}))[0]
	equal(len(described.Members), 2, "members")
	for _, one := range described.Members {
		check(one.GroupInstanceId != nil, "no instance id")
	}
	got(admin.RemoveMemberFromConsumerGroup(w.name, []string{"one", "two"}))
	w.until("an empty group or a new one", func() bool {
		return len(got(admin.DescribeConsumerGroups([]string{w.name}))[0].Members) < 2
	})
	again.leave()
	other.leave()
}
