import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * RocketMQ's own Java client that signs: AclPeer ADDRESS TOPIC GROUP ACCESS_KEY SECRET sends a message and receives it.
 *
 * It prints one JSON object for each step; or that it was refused.
 */
public final class AclPeer {
    static final int WAIT_S = 60;

    public static void main(String[] words) throws Exception {
        RPCHook hook = new AclClientRPCHook(new SessionCredentials(words[3], words[4]));
        DefaultMQProducer producer = new DefaultMQProducer(words[2] + "-producer", hook);
        producer.setNamesrvAddr(words[0]);
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        try {
            byte[] body = "grün".getBytes(StandardCharsets.UTF_8);
            Message message = new Message(words[1], "red", "key-1", body);
            message.putUserProperty("color", "grün");
            JsonLines.tell("sent", producer.send(message).getSendStatus());
        } catch (MQClientException | MQBrokerException refused) {
            // Already the route: the client says that the topic has none.
            JsonLines.tell("refused", true);
            System.exit(0);
        }
        CountDownLatch left = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(words[2], hook, new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(words[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(words[1], "red");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(each -> JsonLines.tell("received", each.getKeys()));
            left.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        if (!left.await(WAIT_S, TimeUnit.SECONDS)) {
            System.exit(1);
        }
        consumer.shutdown();
        producer.shutdown();
        System.exit(0); // the client leaves threads behind
    }
}
