import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Java's clients at a secured node: jobs as lines of `key=value` words on standard input, an error (or none) as a line for each. */
public class KafkaSecured {
    static final int RECORDS = 20;
    static final long MAX_MS = 30_000;
    static final int IN_FLIGHT = 1_000;

    final Map<String, Object> settings = new HashMap<>();
    final String action;
    final String name;
    final double seconds;

    KafkaSecured(Map<String, String> job) {
        action = job.remove("action");
        name = job.remove("name");
        seconds = Double.parseDouble(job.remove("seconds"));
        settings.putAll(job);
        settings.put("default.api.timeout.ms", "20000");
        settings.put("request.timeout.ms", "15000");
    }

    static void check(Object seen, Object wanted, String what) {
        if (!seen.equals(wanted)) {
            throw new AssertionError(what + ": " + seen + ", not " + wanted);
        }
    }

    static List<String> numbered(int count) {
        return IntStream.range(0, count).mapToObj(Integer::toString).sorted().collect(Collectors.toList());
    }

    Admin admin() {
        return Admin.create(settings);
    }

    KafkaProducer<String, String> producer() {
        Map<String, Object> mine = new HashMap<>(settings);
        mine.remove("default.api.timeout.ms");
        mine.put("max.block.ms", "20000");
        mine.put("delivery.timeout.ms", "20000");
        return new KafkaProducer<>(mine, new StringSerializer(), new StringSerializer());
    }

    KafkaConsumer<String, String> consumer(String group) {
        Map<String, Object> mine = new HashMap<>(settings);
        mine.putAll(Map.of("group.id", group, "auto.offset.reset", "earliest", "enable.auto.commit", "false", "fetch.max.wait.ms", "200"));
        KafkaConsumer<String, String> made = new KafkaConsumer<>(mine, new StringDeserializer(), new StringDeserializer());
        made.subscribe(List.of(name));
        return made;
    }

    List<String> values(KafkaConsumer<String, String> consumer, int count) {
        List<String> seen = new ArrayList<>();
        long end = System.currentTimeMillis() + MAX_MS;
        while (seen.size() < count) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                seen.add(record.value());
            }
            if (System.currentTimeMillis() > end) {
                throw new AssertionError(seen.size() + " of " + count + " records");
            }
        }
        return seen;
    }

    void send(int count) throws Exception {
        try (KafkaProducer<String, String> producer = producer()) {
            for (int number = 0; number < count; number++) {
                producer.send(new ProducerRecord<>(name, Integer.toString(number))).get();
            }
        }
    }

    void work() throws Exception {
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic(name, 2, (short) 1))).all().get();
            send(RECORDS);
            try (KafkaConsumer<String, String> consumer = consumer(name)) {
                List<String> seen = values(consumer, RECORDS);
                consumer.commitSync();
                check(seen.stream().sorted().collect(Collectors.toList()), numbered(RECORDS), "records");
            }
            long committed = admin.listConsumerGroupOffsets(name).partitionsToOffsetAndMetadata().get().values().stream().mapToLong(it -> it.offset()).sum();
            check(committed, (long) RECORDS, "committed");
            admin.deleteTopics(List.of(name)).all().get();
        }
    }

    void stay() throws Exception {
        try (KafkaProducer<String, String> producer = producer(); KafkaConsumer<String, String> consumer = consumer(name)) {
            // many requests are in flight all the time: a connection that broke would show as records lost, or twice
            long end = System.currentTimeMillis() + (long) (seconds * 1000);
            List<Future<?>> promised = new ArrayList<>();
            int seen = 0;
            while (System.currentTimeMillis() < end || seen < promised.size()) {
                while (promised.size() - seen < IN_FLIGHT && System.currentTimeMillis() < end) {
                    promised.add(producer.send(new ProducerRecord<>(name, Integer.toString(promised.size()))));
                }
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    check(record.value(), Integer.toString(seen++), "the record");
                }
                check(System.currentTimeMillis() < end + MAX_MS, true, "records come");
            }
            for (Future<?> one : promised) {
                one.get();
            }
            consumer.commitSync();
            check(again(producer.metrics()) > 0, true, "authenticated anew by the producer");
            check(again(consumer.metrics()) > 0, true, "authenticated anew by the consumer");
        }
    }

    static double again(Map<MetricName, ? extends Metric> metrics) {
        return metrics.values().stream()
            .filter(one -> one.metricName().name().equals("successful-reauthentication-total") && one.metricName().tags().size() == 1)
            .mapToDouble(one -> (Double) one.metricValue()).sum();
    }

    void run() throws Exception {
        switch (action) {
            case "work": work(); break;
            case "stay": stay(); break;
            case "write": send(1); break;
            case "knock":
                try (Admin admin = admin()) {
                    admin.describeCluster().nodes().get();
                }
                break;
            case "create":
                try (Admin admin = admin()) {
                    admin.createTopics(List.of(new NewTopic(name, 1, (short) 1))).all().get();
                }
                break;
            case "read":
                try (KafkaConsumer<String, String> consumer = consumer(name + "-group")) {
                    values(consumer, 1);
                }
                break;
            default: throw new AssertionError(action);
        }
    }

    static String told(Throwable error) {
        List<String> parts = new ArrayList<>();
        for (Throwable found = error; found != null && parts.size() < 6; found = found.getCause()) {
            parts.add(found.getClass().getSimpleName() + ": " + found.getMessage());
        }
        return String.join(" < ", parts).replaceAll("\\s+", " ");
    }

    public static void main(String[] words) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, String> job = new HashMap<>();
            for (String word : line.split("\t")) {
                int sign = word.indexOf('=');
                job.put(word.substring(0, sign), word.substring(sign + 1));
            }
            String answer = "";
            try {
                new KafkaSecured(job).run();
            } catch (Throwable error) {
                answer = told(error);
            }
            System.out.println(answer);
        }
        System.exit(0);
    }
}
