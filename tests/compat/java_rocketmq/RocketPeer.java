import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * RocketMQ's own Java client, as a test drives it: one JSON object per line of output.
 *
 * RocketPeer produce ADDRESS TOPIC sends messages in each way a producer has and prints what became of each;
 * RocketPeer delay ADDRESS TOPIC LEVEL sends one message;
 * RocketPeer push|orderly|broadcast|retry|dead|litepull ADDRESS TOPIC GROUP EXPRESSION COUNT prints COUNT messages, then leaves in order.
 */
public final class RocketPeer {
    static final int WAIT_S = 60;

    public static void main(String[] words) {
        try {
            run(words);
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
        System.exit(0); // the client leaves threads behind
    }

    static void run(String[] words) throws Exception {
        switch (words[0]) {
            case "produce":
                produce(words[1], words[2]);
                break;
            case "delay":
                delay(words[1], words[2], Integer.parseInt(words[3]));
                break;
            case "litepull":
                litePull(words[1], words[2], words[3], words[4], Integer.parseInt(words[5]));
                break;
            default:
                push(words[0], words[1], words[2], words[3], words[4], Integer.parseInt(words[5]));
        }
    }

    static void produce(String address, String topic) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("producers");
        producer.setNamesrvAddr(address);
        producer.setSendMsgTimeout(20_000); // a machine that runs all tests at once is slow
        producer.start();
        Message plain = new Message(topic, "red", "order-1", "hello".getBytes(StandardCharsets.UTF_8));
        plain.putUserProperty("color", "grün");
        plain.setFlag(7);
        sent("sync", producer.send(plain));
        sent("large", producer.send(new Message(topic, "blue", "order-2", new byte[10_000]))); // over 4 KiB: compressed
        for (int number = 0; number < 4; number++) {
            sent("ordered", producer.send(new Message(topic, "green", ("ordered-" + number).getBytes(StandardCharsets.UTF_8)),
                    (queues, message, argument) -> queues.get((Integer) argument % queues.size()), 1));
        }
        List<Message> batch = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            batch.add(new Message(topic, "red", "k" + number, ("batch-" + number).getBytes(StandardCharsets.UTF_8)));
        }
        sent("batch", producer.send(batch));
        producer.sendOneway(new Message(topic, "red", "oneway".getBytes(StandardCharsets.UTF_8)));
        CountDownLatch answered = new CountDownLatch(5);
        for (int number = 0; number < 5; number++) {
            producer.send(new Message(topic, "blue", ("async-" + number).getBytes(StandardCharsets.UTF_8)), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    sent("async", result);
                    answered.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    JsonLines.tell("way", "async", "status", error);
                    answered.countDown();
                }
            });
        }
        answered.await(WAIT_S, TimeUnit.SECONDS);
        producer.shutdown();
    }

    /** One message with this delay level. */
    static void delay(String address, String topic, int level) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("producers");
        producer.setNamesrvAddr(address);
        producer.setSendMsgTimeout(20_000);
        producer.start();
        Message message = new Message(topic, "red", "delayed".getBytes(StandardCharsets.UTF_8));
        message.setDelayTimeLevel(level);
        sent("delay", producer.send(message));
        producer.shutdown();
    }

    static void sent(String way, SendResult result) {
        JsonLines.tell("way", way,
                "status", result.getSendStatus(),
                "queue", result.getMessageQueue().getQueueId(),
                "broker", result.getMessageQueue().getBrokerName(),
                "offset", result.getQueueOffset(),
                "id", result.getMsgId(),
                "stored", result.getOffsetMsgId());
    }

    static void received(MessageExt message) {
        CRC32 sum = new CRC32();
        sum.update(message.getBody());
        Map<String, Object> properties = new HashMap<>(message.getProperties());
        properties.keySet().removeIf(name -> name.matches("MIN_OFFSET|MAX_OFFSET|CONSUME_START_TIME|WAIT|UNIQ_KEY|CLUSTER|TAGS|KEYS|INSTANCE_ID"));
        JsonLines.tell("topic", message.getTopic(),
                "queue", message.getQueueId(),
                "offset", message.getQueueOffset(),
                "stored", message instanceof MessageClientExt ? ((MessageClientExt) message).getOffsetMsgId() : null,
                "id", message.getMsgId(),
                "flag", message.getFlag(),
                "tags", message.getTags(),
                "keys", message.getKeys(),
                "times", message.getReconsumeTimes(),
                "body", message.getBody().length < 100 ? new String(message.getBody(), StandardCharsets.UTF_8) : message.getBody().length + " bytes",
                "sum", sum.getValue(),
                "properties", properties,
                "born", message.getBornTimestamp(),
                "host", message.getBornHostString());
    }

    static void push(String kind, String address, String topic, String group, String expression, int count) throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, expression);
        if (kind.equals("broadcast")) {
            broadcasting(consumer);
        }
        if (kind.equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                messages.forEach(RocketPeer::received);
                messages.forEach(message -> left.countDown());
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(RocketPeer::received);
                messages.forEach(message -> left.countDown());
                // "retry": all that comes for the first time fails, and shall come again after the shortest delay.
                if (kind.equals("retry") && messages.get(0).getReconsumeTimes() == 0) {
                    context.setDelayLevelWhenNextConsume(1);
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                // "dead": never again.
                if (kind.equals("dead")) {
                    context.setDelayLevelWhenNextConsume(-1);
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        left.await(WAIT_S, TimeUnit.SECONDS);
        // What failed is sent back by the threads that consumed it, and a client that has left sends nothing.
        for (int looks = 0; isConsuming(consumer) && looks < 100 * WAIT_S; looks++) {
            Thread.sleep(10);
        }
        consumer.shutdown();
    }

    /** True while a message is consumed, or sent back. */
    static boolean isConsuming(DefaultMQPushConsumer consumer) {
        return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().values().stream()
                .anyMatch(queue -> queue.getMsgCount().get() > 0);
    }

    /** The enum of the model is in another package since version 5. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static void broadcasting(DefaultMQPushConsumer consumer) throws Exception {
        for (Method method : DefaultMQPushConsumer.class.getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                method.invoke(consumer, Enum.valueOf((Class<Enum>) method.getParameterTypes()[0], "BROADCASTING"));
            }
        }
    }

    static void litePull(String address, String topic, String group, String expression, int count) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, expression);
        consumer.start();
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_S);
        for (int found = 0; found < count && System.nanoTime() < until;) {
            for (MessageExt message : consumer.poll(1_000)) {
                received(message);
                found++;
            }
        }
        consumer.commitSync();
        consumer.shutdown();
    }
}
