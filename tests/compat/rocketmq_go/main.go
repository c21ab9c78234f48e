// RocketMQ's Go client as a test drives it: `rocketmq_go ADDRESS TOPIC` sends a message with a delay level, and one with
// a time, and prints a line for each of both that comes: its body, and how many milliseconds after it was born it was stored.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const wait = 60 * time.Second

func main() {
	rlog.SetLogLevel("fatal")
	address, topic := []string{os.Args[1]}, os.Args[2]
	sender, err := rocketmq.NewProducer(producer.WithNameServer(address), producer.WithGroupName("delaying"))
	check(err)
	check(sender.Start())
	send(sender, primitive.NewMessage(topic, []byte("level")).WithDelayTimeLevel(1))
	timed := primitive.NewMessage(topic, []byte("time"))
	timed.WithProperty("TIMER_DELAY_MS", "1500")
	send(sender, timed)

	came := make(chan *primitive.MessageExt, 10)
	receiver, err := rocketmq.NewPushConsumer(consumer.WithNameServer(address), consumer.WithGroupName("delayed"),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	check(err)
	check(receiver.Subscribe(topic, consumer.MessageSelector{}, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			came <- message
		}
		return consumer.ConsumeSuccess, nil
	}))
	check(receiver.Start())
	for range 2 {
		select {
		case message := <-came:
			fmt.Println(string(message.Body), message.StoreTimestamp-message.BornTimestamp)
		case <-time.After(wait):
			check(fmt.Errorf("nothing came"))
		}
	}
	_ = receiver.Shutdown()
	_ = sender.Shutdown()
}

func send(sender rocketmq.Producer, message *primitive.Message) {
	result, err := sender.SendSync(context.Background(), message)
	check(err)
	if result.Status != primitive.SendOK {
		check(fmt.Errorf("the answer is %v", result))
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
