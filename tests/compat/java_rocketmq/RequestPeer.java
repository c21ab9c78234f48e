import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Requests that are messages, and a consumer that replies to them, in one program: one JSON object per line of output.
 *
 * RequestPeer ADDRESS TOPIC COUNT WAY asks so often, each time after the reply, then what nobody answers. The way is sync or callback.
 */
public final class RequestPeer {
    static final int WAIT_MS = 20_000;

    public static void main(String[] words) {
        try {
            run(words);
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    static void run(String[] words) throws Exception {
        DefaultMQProducer answering = new DefaultMQProducer("answering");
        answering.setNamesrvAddr(words[0]);
        answering.setMqClientApiTimeout(WAIT_MS);
        answering.setInstanceName("answering");
        answering.start();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("answers-" + words[1]);
        consumer.setNamesrvAddr(words[0]);
        consumer.setMqClientApiTimeout(WAIT_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(words[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                answer(answering, message);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer asking = new DefaultMQProducer("asking");
        asking.setNamesrvAddr(words[0]);
        asking.setMqClientApiTimeout(WAIT_MS);
        asking.setInstanceName("asking");
        asking.start();
        for (int number = 0; number < Integer.parseInt(words[2]); number++) {
            ask(asking, words[3], new Message(words[1], "tag", ("question-" + number).getBytes(StandardCharsets.UTF_8)), WAIT_MS);
        }
        ask(asking, words[3], new Message(words[1], "tag", "silence".getBytes(StandardCharsets.UTF_8)), 500);
        System.exit(0);
    }

    static void ask(DefaultMQProducer producer, String way, Message question, long timeoutMs) throws Exception {
        if (way.equals("sync")) {
            try {
                tell(producer.request(question, timeoutMs));
            } catch (RequestTimeoutException error) {
                JsonLines.tell("body", "timeout");
            }
            return;
        }
        CountDownLatch answered = new CountDownLatch(1);
        producer.request(question, new RequestCallback() {
            @Override
            public void onSuccess(Message reply) {
                tell(reply);
                answered.countDown();
            }

            @Override
            public void onException(Throwable error) {
                JsonLines.tell("body", "timeout");
                answered.countDown();
            }
        }, timeoutMs);
        answered.await(WAIT_MS, TimeUnit.MILLISECONDS);
    }

    static void answer(DefaultMQProducer producer, MessageExt message) {
        String text = new String(message.getBody(), StandardCharsets.UTF_8);
        if (text.equals("silence")) {
            return;
        }
        try {
            // Over 4 KiB: the client compresses it.
            byte[] body = (text.replace("question", "answer") + " ".repeat(5_000)).getBytes(StandardCharsets.UTF_8);
            producer.send(MessageUtil.createReplyMessage(message, body), 3_000);
        } catch (Exception error) {
            error.printStackTrace();
        }
    }

    static void tell(Message reply) {
        String body = new String(reply.getBody(), StandardCharsets.UTF_8).trim();
        JsonLines.tell("body", body, "size", reply.getBody().length, "topic", reply.getTopic());
    }
}
