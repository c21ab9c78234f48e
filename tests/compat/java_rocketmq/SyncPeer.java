import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * Senders that go on while their broker is killed: one line "TOPIC NUMBER" for each message that was acknowledged as safe.
 *
 * SyncPeer ADDRESS THREADS TOPIC... sends numbers to each topic, each number once, until it is killed.
 */
public final class SyncPeer {
    public static void main(String[] words) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("senders");
        producer.setNamesrvAddr(words[0]);
        producer.setRetryTimesWhenSendFailed(0); // a number that is sent twice would prove nothing
        producer.setSendMsgTimeout(3_000);
        producer.setPollNameServerInterval(1_000);
        producer.setHeartbeatBrokerInterval(1_000);
        producer.start();
        for (int index = 2; index < words.length; index++) {
            String topic = words[index];
            AtomicInteger numbers = new AtomicInteger();
            for (int thread = 0; thread < Integer.parseInt(words[1]); thread++) {
                new Thread(() -> send(producer, topic, numbers)).start();
            }
        }
    }

    static void send(DefaultMQProducer producer, String topic, AtomicInteger numbers) {
        while (true) {
            int number = numbers.getAndIncrement();
            try {
                Message message = new Message(topic, Integer.toString(number).getBytes(StandardCharsets.UTF_8));
                if (producer.send(message).getSendStatus() == SendStatus.SEND_OK) {
                    System.out.println(topic + " " + number);
                }
            } catch (Exception error) {
                // The broker is down: the number may be stored or not.
                try {
                    Thread.sleep(50);
                } catch (InterruptedException interrupted) {
                    return;
                }
            }
        }
    }
}
