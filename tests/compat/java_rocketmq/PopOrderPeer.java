import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.AckCallback;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.PopCallback;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.header.PeekMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;
import org.apache.rocketmq.common.message.MessageDecoder;

/**
 * Pops in order, acknowledgements in batches and peeks by the classes of Java's client that RocketMQ's proxy uses; one JSON
 * object per line of output.
 *
 * PopOrderPeer ADDRESS TOPIC GROUP sends five messages to one queue, pops two in order, and again before and after they are
 * acknowledged, and once more after the third of the others is left alone for a while; it peeks in between.
 */
public final class PopOrderPeer {
    static final long INVISIBLE_MS = 20_000;
    static MQClientInstance client;
    static MessageQueue queue;
    static String broker;
    static String group;

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
        producer.setNamesrvAddr(words[0]);
        producer.setSendMsgTimeout(20_000); // a machine that runs all tests at once is slow
        producer.start();
        group = words[2];
        queue = producer.fetchPublishMessageQueues(words[1]).get(0);
        for (int number = 0; number < 5; number++) {
            producer.send(new Message(words[1], ("m" + number).getBytes(StandardCharsets.UTF_8)), queue);
        }
        client = producer.getDefaultMQProducerImpl().getMqClientFactory();
        broker = client.findBrokerAddressInPublish(queue.getBrokerName());
        List<MessageExt> first = pop("first", 2, INVISIBLE_MS, 10_000);
        pop("held up", 2, INVISIBLE_MS, 0);
        acknowledge("both", first);
        peek("next", 2);
        List<MessageExt> second = pop("second", 2, 1_500, 10_000);
        acknowledge("its second", second.subList(1, 2));
        List<MessageExt> third = pop("third", 8, INVISIBLE_MS, 15_000);
        acknowledge("all", third);
        peek("nothing", 2);
        producer.shutdown();
    }

    static List<MessageExt> pop(String what, int count, long invisibleMs, long pollMs) throws Exception {
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(queue.getTopic());
        header.setQueueId(queue.getQueueId());
        header.setMaxMsgNums(count);
        header.setInvisibleTime(invisibleMs);
        header.setPollTime(pollMs);
        header.setBornTime(System.currentTimeMillis());
        header.setInitMode(0);
        header.setExpType("TAG");
        header.setExp("*");
        header.setOrder(true);
        CompletableFuture<PopResult> done = new CompletableFuture<>();
        client.getMQClientAPIImpl().popMessageAsync(queue.getBrokerName(), broker, header, pollMs + 10_000, new PopCallback() {
            @Override
            public void onSuccess(PopResult result) {
                done.complete(result);
            }

            @Override
            public void onException(Throwable error) {
                done.completeExceptionally(error);
            }
        });
        PopResult result = done.get(60, TimeUnit.SECONDS);
        List<MessageExt> found = result.getMsgFoundList() == null ? new ArrayList<>() : result.getMsgFoundList();
        tell(what, result.getPopStatus().toString(), found);
        return found;
    }

    static void acknowledge(String what, List<MessageExt> messages) throws Exception {
        List<String> receipts = new ArrayList<>();
        for (MessageExt message : messages) {
            receipts.add(message.getProperty(MessageConst.PROPERTY_POP_CK));
        }
        CompletableFuture<AckResult> done = new CompletableFuture<>();
        client.getMQClientAPIImpl().batchAckMessageAsync(broker, 10_000, new AckCallback() {
            @Override
            public void onSuccess(AckResult result) {
                done.complete(result);
            }

            @Override
            public void onException(Throwable error) {
                done.completeExceptionally(error);
            }
        }, queue.getTopic(), group, receipts);
        tell(what, done.get(60, TimeUnit.SECONDS).getStatus().toString(), new ArrayList<>());
    }

    static void peek(String what, int count) throws Exception {
        PeekMessageRequestHeader header = new PeekMessageRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(queue.getTopic());
        header.setQueueId(queue.getQueueId());
        header.setMaxMsgNums(count);
        RemotingCommand answer = client.getMQClientAPIImpl().getRemotingClient()
            .invokeSync(broker, RemotingCommand.createRequestCommand(200_052, header), 10_000);
        List<MessageExt> found = answer.getBody() == null ? new ArrayList<>() : MessageDecoder.decodesBatch(java.nio.ByteBuffer.wrap(answer.getBody()), true, true, true);
        tell(what, String.valueOf(answer.getCode()), found);
    }

    static void tell(String what, String status, List<MessageExt> found) {
        StringBuilder bodies = new StringBuilder();
        for (MessageExt message : found) {
            bodies.append(new String(message.getBody(), StandardCharsets.UTF_8)).append(':').append(message.getReconsumeTimes()).append(' ');
        }
        JsonLines.tell("what", what, "status", status, "found", bodies.toString().trim());
    }
}
