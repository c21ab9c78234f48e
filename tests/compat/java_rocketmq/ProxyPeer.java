import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * RocketMQ 5's client, which speaks gRPC with RocketMQ's proxy: ENDPOINT STEP TOPIC.
 *
 * Prints one JSON object for each thing that a test looks at. Each step ends by itself.
 */
public class ProxyPeer {
    private static final int PLAIN = 50;
    private static final int DELAY_MS = 2_000;
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static ClientConfiguration configuration;

    public static void main(String[] words) throws Exception {
        configuration = ClientConfiguration.newBuilder().setEndpoints(words[0]).enableSsl(false).build();
        switch (words[1]) {
            case "push" -> push(words[2]);
            case "simple" -> simple(words[2]);
            case "delay" -> delay(words[2]);
            case "ordered" -> ordered(words[2]);
            case "transactions" -> transactions(words[2]);
            case "checked" -> checked(words[2]);
            default -> throw new IllegalArgumentException(words[1]);
        }
        System.exit(0);
    }

    private static void push(String topic) throws Exception {
        CountDownLatch left = new CountDownLatch(PLAIN);
        try (Producer producer = producer(topic);
                PushConsumer consumer = consumer(topic, view -> {
                    String body = text(view);
                    print("got", body, "keys", view.getKeys(), "tag", view.getTag().orElse(""),
                            "colour", view.getProperties().get("colour"), "attempt", view.getDeliveryAttempt());
                    // The first delivery of one of them fails, and it comes again.
                    if (body.equals("m7") && view.getDeliveryAttempt() == 1) {
                        return ConsumeResult.FAILURE;
                    }
                    left.countDown();
                    return ConsumeResult.SUCCESS;
                })) {
            for (int number = 0; number < PLAIN; number++) {
                producer.send(message(topic, "m" + number).setKeys("k" + number).setTag("a").build());
            }
            print("finished", left.await(60, TimeUnit.SECONDS));
        }
    }

    private static void simple(String topic) throws Exception {
        try (Producer producer = producer(topic)) {
            for (int number = 0; number < PLAIN; number++) {
                producer.send(message(topic, "s" + number).setTag(number % 2 == 0 ? "even" : "odd").build());
            }
        }
        receive(topic, "by-tag", new FilterExpression("even", FilterExpressionType.TAG));
        receive(topic, "by-sql", new FilterExpression("colour = 'red' AND TAGS = 'odd'", FilterExpressionType.SQL92));
    }

    private static void receive(String topic, String group, FilterExpression expression) throws Exception {
        TreeMap<String, Integer> found = new TreeMap<>();
        try (SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration)
                .setConsumerGroup(topic + group).setAwaitDuration(Duration.ofSeconds(3))
                .setSubscriptionExpressions(Map.of(topic, expression)).build()) {
            for (int round = 0; round < 40 && found.size() < PLAIN / 2; round++) {
                for (MessageView view : consumer.receive(16, Duration.ofSeconds(10))) {
                    found.merge(text(view), 1, Integer::sum);
                    consumer.changeInvisibleDuration(view, Duration.ofSeconds(60));
                    consumer.ack(view);
                }
            }
        }
        print("group", group, "messages", found.size(), "deliveries", found.values().stream().mapToInt(n -> n).sum());
    }

    private static void delay(String topic) throws Exception {
        AtomicLong due = new AtomicLong();
        CountDownLatch came = new CountDownLatch(1);
        try (Producer producer = producer(topic);
                PushConsumer consumer = consumer(topic, view -> {
                    print("got", text(view), "early", System.currentTimeMillis() < due.get());
                    came.countDown();
                    return ConsumeResult.SUCCESS;
                })) {
            due.set(System.currentTimeMillis() + DELAY_MS);
            producer.send(message(topic, "late").setDeliveryTimestamp(due.get()).build());
            print("finished", came.await(30, TimeUnit.SECONDS));
        }
    }

    private static void ordered(String topic) throws Exception {
        Map<String, List<String>> found = new ConcurrentHashMap<>();
        CountDownLatch left = new CountDownLatch(40);
        try (Producer producer = producer(topic)) {
            for (int number = 0; number < 40; number++) {
                String group = "mg" + number % 4;
                producer.send(message(topic, Integer.toString(number)).setMessageGroup(group).build());
            }
            try (PushConsumer consumer = consumer(topic, view -> {
                found.computeIfAbsent(view.getMessageGroup().orElse(""), name -> new ArrayList<>()).add(text(view));
                left.countDown();
                return ConsumeResult.SUCCESS;
            })) {
                print("finished", left.await(60, TimeUnit.SECONDS));
            }
        }
        found.forEach((group, bodies) -> print("messageGroup", group, "bodies", bodies));
    }

    private static void transactions(String topic) throws Exception {
        CountDownLatch left = new CountDownLatch(1);
        try (Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic)
                .setTransactionChecker(view -> TransactionResolution.UNKNOWN).build();
                PushConsumer consumer = consumer(topic, view -> {
                    print("got", text(view));
                    left.countDown();
                    return ConsumeResult.SUCCESS;
                })) {
            Transaction rolledBack = producer.beginTransaction();
            producer.send(message(topic, "roll back").build(), rolledBack);
            rolledBack.rollback();
            Transaction committed = producer.beginTransaction();
            producer.send(message(topic, "commit").build(), committed);
            committed.commit();
            print("finished", left.await(30, TimeUnit.SECONDS));
        }
    }

    /** Leaves two transactions open; the checker ends them. */
    private static void checked(String topic) throws Exception {
        CountDownLatch refused = new CountDownLatch(1);
        CountDownLatch came = new CountDownLatch(1);
        try (Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic)
                .setTransactionChecker(view -> {
                    if (text(view).equals("yes")) {
                        return TransactionResolution.COMMIT;
                    }
                    refused.countDown();
                    return TransactionResolution.ROLLBACK;
                }).build();
                PushConsumer consumer = consumer(topic, view -> {
                    print("got", text(view));
                    came.countDown();
                    return ConsumeResult.SUCCESS;
                })) {
            for (String body : List.of("no", "yes")) {
                producer.send(message(topic, body).build(), producer.beginTransaction());
            }
            print("finished", refused.await(90, TimeUnit.SECONDS) && came.await(90, TimeUnit.SECONDS));
        }
    }

    private static Producer producer(String topic) throws Exception {
        return PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build();
    }

    private static PushConsumer consumer(String topic, org.apache.rocketmq.client.apis.consumer.MessageListener listener)
            throws Exception {
        return PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup(topic + "-group")
                .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL)).setMessageListener(listener).build();
    }

    private static MessageBuilder message(String topic, String body) {
        return PROVIDER.newMessageBuilder().setTopic(topic).addProperty("colour", "red")
                .setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    private static String text(MessageView view) {
        return StandardCharsets.UTF_8.decode(view.getBody()).toString();
    }

    private static synchronized void print(Object... fields) {
        StringBuilder line = new StringBuilder("{");
        for (int at = 0; at < fields.length; at += 2) {
            Object value = fields[at + 1];
            boolean isPlain = value instanceof Number || value instanceof Boolean;
            line.append(at == 0 ? "" : ", ").append('"').append(fields[at]).append("\": ");
            line.append(isPlain ? value.toString() : '"' + value.toString() + '"');
        }
        System.out.println(line.append('}'));
        System.out.flush();
    }
}
