import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/**
 * Java's push consumer with SQL92 expressions; prints messages as RocketPeer does.
 *
 * PopPeer sql ADDRESS TOPIC GROUP EXPRESSION COUNT
 */
public final class PopPeer {
    public static void main(String[] words) {
        try {
            push(words[0], words[1], words[2], words[3], words[4], Integer.parseInt(words[5]));
        } catch (MQClientException error) {
            RocketPeer.tell(java.util.Map.of("code", error.getResponseCode(), "error", error.getErrorMessage()));
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
        System.exit(0); // the client leaves threads behind
    }

    static void push(String kind, String address, String topic, String group, String expression, int count) throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, MessageSelector.bySql(expression));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(RocketPeer::received);
            messages.forEach(message -> left.countDown());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        left.await(RocketPeer.WAIT_S, TimeUnit.SECONDS);
        consumer.shutdown();
    }
}
