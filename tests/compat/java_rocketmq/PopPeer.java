import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Java's push consumer with SQL92 expressions, or with POP; prints messages as RocketPeer does.
 *
 * PopPeer sql|pop ADDRESS TOPIC GROUP EXPRESSION COUNT [FAILING] prints messages until COUNT different ones have come. Those whose body begins with FAILING
 * fail when they come for the first time.
 */
public final class PopPeer {
    public static void main(String[] words) {
        try {
            push(words[0], words[1], words[2], words[3], words[4], Integer.parseInt(words[5]), words.length > 6 ? words[6] : null);
        } catch (MQClientException error) {
            JsonLines.tell("code", error.getResponseCode(), "error", error.getErrorMessage());
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
        System.exit(0); // the client leaves threads behind
    }

    static void push(String kind, String address, String topic, String group, String expression, int count, String failing)
            throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        Set<String> seen = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.setMqClientApiTimeout(20_000); // a machine that runs all tests at once is slow
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (kind.equals("sql")) {
            consumer.subscribe(topic, MessageSelector.bySql(expression));
        } else {
            consumer.subscribe(topic, expression);
            popping(consumer);
        }
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(RocketPeer::received);
            for (MessageExt message : messages) {
                String body = new String(message.getBody());
                boolean isSecond = failing != null && body.startsWith(failing) && message.getReconsumeTimes() > 0;
                if (seen.add(isSecond ? body + " again" : body)) {
                    left.countDown();
                }
            }
            boolean fails = failing != null && messages.get(0).getReconsumeTimes() == 0 && new String(messages.get(0).getBody()).startsWith(failing);
            return fails ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        left.await(RocketPeer.WAIT_S, TimeUnit.SECONDS);
        // Acknowledgements are sent one by one, and nobody tells when they are answered: what is sent before this request is
        // answered before it.
        consumer.fetchSubscribeMessageQueues(topic);
        consumer.shutdown();
    }

    /** Version 4 does not have it. */
    static void popping(DefaultMQPushConsumer consumer) throws Exception {
        DefaultMQPushConsumer.class.getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
        Object parts = consumer.getDefaultMQPushConsumerImpl();
        Field delays = parts.getClass().getDeclaredField("popDelayLevel");
        delays.setAccessible(true);
        Arrays.fill((int[]) delays.get(parts), 1); // seconds, of a message that failed
    }
}
