import java.nio.charset.StandardCharsets;
import java.util.Map;
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
 * undecided until it is asked. Then it commits the first of them and rolls back the other one.
 */
public final class TransactionPeer {
    static final int WAIT_S = 60;

    public static void main(String[] words) throws Exception {
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
                return number(message) % 4 == 2 ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        producer.setHeartbeatBrokerInterval(1_000); // by which a broker learns whom to ask
        producer.start();
        producer.fetchPublishMessageQueues(words[1]); // the route, without which it beats for nobody
        for (int number = 0; number < sends; number++) {
            Message message = new Message(words[1], "tag", "key-" + number, Integer.toString(number).getBytes(StandardCharsets.UTF_8));
            message.putUserProperty("n", Integer.toString(number));
            SendResult result = producer.sendMessageInTransaction(message, null);
            tell("sent", result.getTransactionId(), message, result.getQueueOffset());
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

    static synchronized void tell(String what, String id, Message message, long offset) {
        System.out.println(String.format("{\"what\":\"%s\",\"id\":\"%s\",\"number\":%d,\"topic\":\"%s\",\"keys\":\"%s\",\"n\":\"%s\",\"offset\":%d}",
                what, id, number(message), message.getTopic(), message.getKeys(), message.getProperty("n"), offset));
    }
}
