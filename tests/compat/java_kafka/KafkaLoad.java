import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends until standard input ends: KafkaLoad BOOTSTRAP TOPIC TRANSACTED PARTITIONS LABEL PER_SECOND.
 *
 * An idempotent producer writes TOPIC, a transactional one TRANSACTED. Standard output tells what was sent, and what became of it.
 */
public class KafkaLoad {
    static final int RECORDS = 8; // of a transaction; every third one is aborted
    static final int END_ATTEMPTS = 6; // each of max.block.ms
    static final Duration CLOSE_MAX = Duration.ofSeconds(10);
    static volatile boolean isStopping;

    static synchronized void tell(String line) {
        System.out.println(line);
    }

    static KafkaProducer<byte[], byte[]> producer(String bootstrap, Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(more);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("linger.ms", "1");
        settings.put("request.timeout.ms", "3000");
        settings.put("delivery.timeout.ms", Integer.MAX_VALUE);
        settings.put("retry.backoff.ms", "50");
        settings.put("retry.backoff.max.ms", "200");
        settings.putIfAbsent("max.block.ms", "10000");
        settings.put("metadata.max.age.ms", "1000");
        settings.put("socket.connection.setup.timeout.ms", "2000");
        settings.put("socket.connection.setup.timeout.max.ms", "2000");
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    public static void main(String[] words) throws Exception {
        int partitions = Integer.parseInt(words[3]);
        int perSecond = Integer.parseInt(words[5]);
        Thread steady = new Thread(() -> steady(words[0], words[1], partitions, words[4], perSecond));
        Thread transactions = new Thread(() -> transactions(words[0], words[2], partitions, words[4]));
        steady.start();
        transactions.start();
        while (System.in.read() >= 0) {
        }
        isStopping = true;
        steady.join();
        transactions.join();
    }

    static void steady(String bootstrap, String topic, int partitions, String label, int perSecond) {
        try (KafkaProducer<byte[], byte[]> producer = producer(bootstrap, Map.of("max.block.ms", Integer.MAX_VALUE))) {
            long next = System.nanoTime();
            for (int number = 0; !isStopping; number++) {
                int partition = number % partitions;
                String value = label + "-" + number;
                tell("sent " + partition + " " + value);
                try {
                    producer.send(record(topic, partition, value), (stored, error) -> tell(
                            error != null ? "failed " + partition + " " + value + " " + error
                                    : "acknowledged " + partition + " " + value + " " + stored.offset()));
                } catch (KafkaException error) {
                    tell("failed " + partition + " " + value + " " + error);
                }
                next = Math.max(next + 1_000_000_000L / perSecond, System.nanoTime() - 100_000_000L);
                pause((next - System.nanoTime()) / 1_000_000L);
            }
            producer.flush();
        }
    }

    static void transactions(String bootstrap, String topic, int partitions, String label) {
        int number = 0;
        while (!isStopping) {
            Map<String, Object> settings = Map.of("transactional.id", label, "transaction.timeout.ms", "30000");
            KafkaProducer<byte[], byte[]> producer = producer(bootstrap, settings);
            try {
                producer.initTransactions();
                for (String outcome = ""; !isStopping && !outcome.equals("unknown");) {
                    number++;
                    String prefix = label + "-t" + number;
                    outcome = transact(producer, topic, partitions, prefix, number % 3 != 0);
                    tell(outcome + " " + prefix + " " + RECORDS);
                }
            } catch (KafkaException error) {
                System.err.println("a new producer after " + error);
            } finally {
                producer.close(CLOSE_MAX);
            }
        }
    }

    /** What became of one transaction, whose records are called PREFIX-0 and so on. After "unknown" a new producer is needed. */
    static String transact(KafkaProducer<byte[], byte[]> producer, String topic, int partitions, String prefix, boolean isCommit) {
        try {
            producer.beginTransaction();
            List<Future<?>> sent = new ArrayList<>();
            for (int part = 0; part < RECORDS; part++) {
                sent.add(producer.send(record(topic, part % partitions, prefix + "-" + part)));
            }
            producer.flush();
            return end(producer, isCommit) ? (isCommit ? "committed" : "aborted") : "unknown";
        } catch (KafkaException error) {
            System.err.println(prefix + ": " + error);
            return "unknown";
        }
    }

    /** False where it did not end in time; what timed out may be asked again, says Java. */
    static boolean end(KafkaProducer<byte[], byte[]> producer, boolean isCommit) {
        for (int attempt = 0; attempt < END_ATTEMPTS; attempt++) {
            try {
                if (isCommit) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
                return true;
            } catch (TimeoutException error) {
                System.err.println("again after " + error);
            }
        }
        return false;
    }

    static ProducerRecord<byte[], byte[]> record(String topic, int partition, String value) {
        return new ProducerRecord<>(topic, partition, null, value.getBytes(StandardCharsets.UTF_8));
    }

    static void pause(long ms) {
        try {
            Thread.sleep(Math.max(0, ms));
        } catch (InterruptedException error) {
            isStopping = true;
        }
    }
}
