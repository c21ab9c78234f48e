import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.producer.RecallMessageHandle;

/**
 * Delays to a time, as Java's client of version 5 asks for them: one JSON object per line of output.
 *
 * DelayPeer times ADDRESS TOPIC MILLISECONDS sends a message in each of the three ways, one that is due long since, and
 * one that is due in four days, which a broker refuses;
 * DelayPeer recall ADDRESS TOPIC MILLISECONDS sends two, recalls one, and then recalls what it may not.
 */
public final class DelayPeer {
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
        DefaultMQProducer producer = new DefaultMQProducer("producers");
        producer.setNamesrvAddr(words[1]);
        producer.setSendMsgTimeout(20_000); // a machine that runs all tests at once is slow
        producer.start();
        long amount = Long.parseLong(words[3]);
        if (words[0].equals("times")) {
            Message until = message(words[2], "until");
            until.setDeliverTimeMs(System.currentTimeMillis() + amount);
            send(producer, until);
            Message milliseconds = message(words[2], "milliseconds");
            milliseconds.setDelayTimeMs(amount);
            send(producer, milliseconds);
            Message seconds = message(words[2], "seconds");
            seconds.setDelayTimeSec((amount + 999) / 1_000);
            send(producer, seconds);
            Message past = message(words[2], "past");
            past.setDeliverTimeMs(System.currentTimeMillis() - 5_000);
            send(producer, past);
            Message late = message(words[2], "late");
            late.setDelayTimeSec(4 * 24 * 3_600);
            send(producer, late);
        } else {
            recall(producer, words[2], System.currentTimeMillis() + amount);
        }
        producer.shutdown();
    }

    static void recall(DefaultMQProducer producer, String topic, long due) throws Exception {
        Message recalled = message(topic, "recalled");
        recalled.setDeliverTimeMs(due);
        SendResult result = producer.send(recalled);
        recall(producer, topic, result.getRecallHandle(), result.getMsgId());
        Message kept = message(topic, "kept");
        kept.setDeliverTimeMs(due);
        send(producer, kept);
        recall(producer, topic, RecallMessageHandle.HandleV1.buildHandle(topic, "hutong", "1000", "past"), "past");
        recall(producer, topic, RecallMessageHandle.HandleV1.buildHandle("Other", "hutong", String.valueOf(due + 60_000), "other"), "other");
    }

    static void recall(DefaultMQProducer producer, String topic, String handle, String id) throws Exception {
        try {
            JsonLines.tell("id", id, "recalled", producer.recallMessage(topic, handle));
        } catch (MQBrokerException error) {
            JsonLines.tell("id", id, "code", error.getResponseCode());
        }
    }

    static Message message(String topic, String body) {
        return new Message(topic, "red", "key-" + body, body.getBytes(StandardCharsets.UTF_8));
    }

    static void send(DefaultMQProducer producer, Message message) throws Exception {
        String body = new String(message.getBody(), StandardCharsets.UTF_8);
        try {
            SendResult result = producer.send(message);
            JsonLines.tell("body", body, "status", result.getSendStatus(), "id", result.getMsgId());
        } catch (MQBrokerException error) {
            JsonLines.tell("body", body, "code", error.getResponseCode());
        }
    }
}
