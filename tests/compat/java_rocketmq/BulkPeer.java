import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Many messages with all their fields: one line of fields with tabs between them for each.
 *
 * BulkPeer send ADDRESS TOPIC COUNT prints number, queue, offset and id of each;
 * BulkPeer read ADDRESS TOPIC GROUP COUNT prints queue, offset, times of birth and storage, keys, tags, a property and the body.
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
        DefaultMQProducer producer = new DefaultMQProducer("bulk");
        producer.setNamesrvAddr(address);
        producer.setSendMsgTimeout(60_000);
        producer.start();
        AtomicInteger numbers = new AtomicInteger();
        CountDownLatch done = new CountDownLatch(THREADS);
        for (int thread = 0; thread < THREADS; thread++) {
            new Thread(() -> {
                try {
                    for (int number = numbers.getAndIncrement(); number < count; number = numbers.getAndIncrement()) {
                        Message message = new Message(topic, "tag-" + number % 7, "key-" + number, ("größe-" + number).getBytes(StandardCharsets.UTF_8));
                        message.putUserProperty("n", Integer.toString(number));
                        message.setFlag(number);
                        SendResult result = producer.send(message);
                        line(number, result.getMessageQueue().getQueueId(), result.getQueueOffset(), result.getMsgId(), result.getSendStatus());
                    }
                } catch (Exception error) {
                    error.printStackTrace();
                }
                done.countDown();
            }).start();
        }
        done.await(WAIT_S, TimeUnit.SECONDS);
    }

    static void read(String address, String topic, String group, int count) throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                line(message.getQueueId(), message.getQueueOffset(), message.getBornTimestamp(), message.getStoreTimestamp(), message.getKeys(),
                        message.getTags(), message.getProperty("n"), new String(message.getBody(), StandardCharsets.UTF_8), message.getFlag());
                left.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        left.await(WAIT_S, TimeUnit.SECONDS);
        consumer.shutdown();
    }
}
