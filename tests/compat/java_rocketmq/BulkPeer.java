import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Many messages with all their fields: one line of fields with tabs between them for each.
 *
 * BulkPeer send ADDRESS TOPIC COUNT prints number, queue, offset, id, status and state of each. Of thirty messages three are
 * half messages: one is committed at once, one is rolled back, and one is committed when the broker asks about it;
 * BulkPeer read ADDRESS TOPIC GROUP COUNT prints queue, offset, times of birth and storage, keys, tags, a property, the body, the
 * flag and the times it was consumed before. A hundredth of the messages fails when it comes for the first time; COUNT has them twice.
 */
public final class BulkPeer {
    static final int THREADS = 16;
    static final int WAIT_S = 300;
    static final StringBuilder LINES = new StringBuilder();

    public static void main(String[] words) {
        try {
            run(words);
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    static void run(String[] words) throws Exception {
        int count = Integer.parseInt(words[words.length - 1]);
        if (words[0].equals("send")) {
            send(words[1], words[2], count);
        } else {
            read(words[1], words[2], words[3], count);
        }
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        synchronized (LINES) {
            out.print(LINES);
        }
        out.flush();
        System.exit(0);
    }

    static void line(Object... fields) {
        StringBuilder line = new StringBuilder();
        for (Object field : fields) {
            line.append(line.length() > 0 ? "\t" : "").append(field);
        }
        synchronized (LINES) {
            LINES.append(line).append('\n');
        }
    }

    static void send(String address, String topic, int count) throws Exception {
        CountDownLatch asked = new CountDownLatch((int) IntStream.range(0, count).filter(number -> number % 30 == 23).count());
        TransactionMQProducer producer = new TransactionMQProducer("bulk");
        producer.setNamesrvAddr(address);
        producer.setSendMsgTimeout(60_000);
        producer.setHeartbeatBrokerInterval(1_000); // by which a broker learns whom to ask
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                switch (Integer.parseInt(message.getProperty("n")) % 30) {
                    case 3:
                        return LocalTransactionState.COMMIT_MESSAGE;
                    case 13:
                        return LocalTransactionState.ROLLBACK_MESSAGE;
                    default:
                        return LocalTransactionState.UNKNOW;
                }
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                asked.countDown();
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        AtomicInteger numbers = new AtomicInteger();
        CountDownLatch done = new CountDownLatch(THREADS);
        for (int thread = 0; thread < THREADS; thread++) {
            new Thread(() -> {
                try {
                    for (int number = numbers.getAndIncrement(); number < count; number = numbers.getAndIncrement()) {
                        sendOne(producer, topic, number);
                    }
                } catch (Exception error) {
                    error.printStackTrace();
                }
                done.countDown();
            }).start();
        }
        done.await(WAIT_S, TimeUnit.SECONDS);
        asked.await(WAIT_S, TimeUnit.SECONDS);
        // What it answers is sent by another thread, oneway.
        Thread.sleep(500);
        producer.shutdown();
    }

    static void sendOne(TransactionMQProducer producer, String topic, int number) throws Exception {
        Message message = new Message(topic, "tag-" + number % 7, "key-" + number, ("größe-" + number).getBytes(StandardCharsets.UTF_8));
        message.putUserProperty("n", Integer.toString(number));
        message.setFlag(number);
        Object state = "PLAIN";
        SendResult result;
        if (number % 10 == 3) {
            result = producer.sendMessageInTransaction(message, null);
            state = ((TransactionSendResult) result).getLocalTransactionState();
        } else {
            result = producer.send(message);
        }
        line(number, result.getMessageQueue().getQueueId(), result.getQueueOffset(), result.getMsgId(), result.getSendStatus(), state);
    }

    static void read(String address, String topic, String group, int count) throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            boolean fails = false;
            for (MessageExt message : messages) {
                fails |= message.getReconsumeTimes() == 0 && Integer.parseInt(message.getProperty("n")) % 100 == 0;
                line(message.getQueueId(), message.getQueueOffset(), message.getBornTimestamp(), message.getStoreTimestamp(), message.getKeys(),
                        message.getTags(), message.getProperty("n"), new String(message.getBody(), StandardCharsets.UTF_8), message.getFlag(),
                        message.getReconsumeTimes());
                left.countDown();
            }
            context.setDelayLevelWhenNextConsume(1); // the shortest
            return fails ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        left.await(WAIT_S, TimeUnit.SECONDS);
        consumer.shutdown();
    }
}
