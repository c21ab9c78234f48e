import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A producer of transactional messages: one JSON object per line of output.
 *
 * TransactionPeer ADDRESS TOPIC GROUP SENDS CHECKS sends messages, and leaves once it was asked so often. The number
 * in a body says what becomes of it: of four, one is committed at once, one is rolled back at once, and two are
 * undecided until it is asked. Whenever it is asked, it commits even numbers and rolls back odd ones.
 */
public final class TransactionPeer {
    static final int WAIT_S = 60;

    public static void main(String[] words) {
        try {
            run(words);
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    static void run(String[] words) throws Exception {
        int sends = Integer.parseInt(words[3]);
        CountDownLatch asked = new CountDownLatch(Integer.parseInt(words[4]));
        TransactionMQProducer producer = new TransactionMQProducer(words[2]);
        producer.setNamesrvAddr(words[0]);
        producer.setSendMsgTimeout(20_000);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                switch (number(message) % 4) {
                    case 0:
                        return LocalTransactionState.COMMIT_MESSAGE;
                    case 1:
                        return LocalTransactionState.ROLLBACK_MESSAGE;
                    default:
                        return LocalTransactionState.UNKNOW;
                }
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                tell("asked", message.getTransactionId(), message, message.getQueueOffset());
                asked.countDown();
                return number(message) % 2 == 0 ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        producer.setMqClientApiTimeout(20_000); // a machine that runs all tests at once is slow
        producer.setPollNameServerInterval(1_000);
        producer.setHeartbeatBrokerInterval(1_000); // by which a broker learns whom to ask
        producer.start();
        producer.fetchPublishMessageQueues(words[1]); // the route, without which it beats for nobody
        for (int number = 0; number < sends; number++) {
            Message message = new Message(words[1], "tag", "key-" + number, Integer.toString(number).getBytes(StandardCharsets.UTF_8));
            message.putUserProperty("n", Integer.toString(number));
            try {
                SendResult result = producer.sendMessageInTransaction(message, null);
                tell("sent", result.getTransactionId(), message, result.getQueueOffset());
            } catch (Exception error) {
                tell("failed", "", message, -1); // it may be stored or not
                Thread.sleep(500);
            }
        }
        boolean wasAsked = asked.await(WAIT_S, TimeUnit.SECONDS);
        // What it answers is sent by another thread, oneway.
        Thread.sleep(500);
        producer.shutdown();
        System.exit(wasAsked ? 0 : 1);
    }

    static int number(Message message) {
        return Integer.parseInt(new String(message.getBody(), StandardCharsets.UTF_8));
    }

    static void tell(String what, String id, Message message, long offset) {
        JsonLines.tell("what", what, "id", id, "number", number(message), "topic", message.getTopic(), "keys", message.getKeys(),
                "n", message.getProperty("n"), "offset", offset);
    }
}
