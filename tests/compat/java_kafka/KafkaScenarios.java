import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DeletedRecords;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.PreferredLeaderNotAvailableException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.ReassignmentInProgressException;
import org.apache.kafka.common.errors.SecurityDisabledException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What Java programs do with Kafka, in any version of kafka-clients: KafkaScenarios BOOTSTRAP PREFIX NAME...
 *
 * Each scenario makes topics and groups whose names begin with PREFIX and checks what it sees. One line of JSON for each on standard
 * output: its name, milliseconds, and the error if there was one. Several run at once, since most of their time is waiting.
 * A class of the name KafkaScenarios4 adds those that need kafka-clients 4.
 */
public class KafkaScenarios {
    interface Scenario {
        void run(KafkaScenarios our) throws Exception;
    }

    static final Map<String, Scenario> SCENARIOS = new TreeMap<>();
    static final int AT_ONCE = 4;
    static final Duration SHORT = Duration.ofMillis(100);
    static final long DEADLINE_MS = 40_000;
    static final int BROKERS = Integer.parseInt(System.getenv().getOrDefault("TEST_BROKERS", "1")); // that are up

    final String bootstrap;
    final String name;
    final Admin admin;

    KafkaScenarios(String bootstrap, String name) {
        this.bootstrap = bootstrap;
        this.name = name;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "request.timeout.ms", "20000"));
    }

    // ---- what the scenarios are made of

    static void check(Object expected, Object seen) {
        if (!Objects.equals(expected, seen)) {
            throw new AssertionError("expected " + expected + ", saw " + seen);
        }
    }

    static void until(String what, BooleanSupplier step) {
        long end = System.currentTimeMillis() + DEADLINE_MS;
        while (!step.getAsBoolean()) {
            if (System.currentTimeMillis() > end) {
                throw new AssertionError(what + " did not happen");
            }
        }
    }

    interface Attempt {
        void run() throws Exception;
    }

    /** The error that the attempt ends with, without its wrapping. */
    static Throwable error(Attempt attempt) {
        try {
            attempt.run();
        } catch (Exception thrown) {
            Throwable found = thrown;
            while ((found instanceof ExecutionException || found.getClass() == KafkaException.class) && found.getCause() != null) {
                found = found.getCause();
            }
            return found;
        }
        throw new AssertionError("no error");
    }

    static void refused(Class<? extends Throwable> kind, Attempt attempt) {
        Throwable seen = error(attempt);
        if (!kind.isInstance(seen)) {
            throw new AssertionError("expected " + kind.getSimpleName() + ", saw " + seen, seen);
        }
    }

    static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    static String[] numbers(int from, int to) {
        return IntStream.range(from, to).mapToObj(Integer::toString).toArray(String[]::new);
    }

    String topic(String word, int partitions) throws Exception {
        String topic = name + "-" + word;
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        return topic;
    }

    KafkaProducer<byte[], byte[]> producer(Object... settings) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "linger.ms", 2));
        put(all, settings);
        return new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
    }

    KafkaConsumer<byte[], byte[]> consumer(Object... settings) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "earliest",
                "enable.auto.commit", false, "fetch.max.wait.ms", 100, "heartbeat.interval.ms", 200, "session.timeout.ms", 10_000));
        put(all, settings);
        if ("consumer".equals(all.get("group.protocol"))) {
            all.remove("heartbeat.interval.ms");
            all.remove("session.timeout.ms");
        }
        return new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static void put(Map<String, Object> all, Object... settings) {
        for (int index = 0; index < settings.length; index += 2) {
            all.put((String) settings[index], settings[index + 1]);
        }
    }

    static List<RecordMetadata> send(KafkaProducer<byte[], byte[]> to, String topic, Integer partition, String... values) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (String value : values) {
            sent.add(to.send(new ProducerRecord<>(topic, partition, null, bytes(value))));
        }
        to.flush();
        List<RecordMetadata> told = new ArrayList<>();
        for (Future<RecordMetadata> one : sent) {
            told.add(one.get());
        }
        return told;
    }

    void fill(String topic, Integer partition, String... values) throws Exception {
        try (KafkaProducer<byte[], byte[]> to = producer()) {
            send(to, topic, partition, values);
        }
    }

    static List<ConsumerRecord<byte[], byte[]>> read(KafkaConsumer<byte[], byte[]> from, int count) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        until(count + " records", () -> {
            from.poll(SHORT).forEach(records::add);
            return records.size() >= count;
        });
        return records;
    }

    static List<String> values(Collection<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().map(record -> text(record.value())).collect(Collectors.toList());
    }

    /** Every value of a partition that a reader of this kind may see. */
    List<String> everything(String topic, int partition, String isolation) {
        TopicPartition place = new TopicPartition(topic, partition);
        try (KafkaConsumer<byte[], byte[]> from = consumer("isolation.level", isolation)) {
            from.assign(List.of(place));
            from.seekToBeginning(List.of(place));
            long end = from.endOffsets(List.of(place)).get(place);
            List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
            until("the end of " + place, () -> {
                from.poll(SHORT).forEach(records::add);
                return from.position(place) >= end;
            });
            return values(records);
        }
    }

    // ---- producing

    static void produceAcks(KafkaScenarios our) throws Exception {
        String topic = our.topic("acks", 1);
        for (String acks : List.of("0", "1", "all")) {
            try (KafkaProducer<byte[], byte[]> to = our.producer("acks", acks, "enable.idempotence", false)) {
                List<RecordMetadata> told = send(to, topic, 0, numbers(0, 10));
                check(acks.equals("0") ? -1L : acks.equals("1") ? 19L : 29L, told.get(9).offset());
            }
            until("ten more records", () -> our.everything(topic, 0, "read_uncommitted").size() % 10 == 0);
        }
        check(30, our.everything(topic, 0, "read_uncommitted").size());
    }

    static void produceIdempotent(KafkaScenarios our) throws Exception {
        String topic = our.topic("idempotent", 1);
        try (KafkaProducer<byte[], byte[]> to = our.producer("enable.idempotence", true, "batch.size", 200)) {
            send(to, topic, 0, numbers(0, 500));
        }
        check(List.of(numbers(0, 500)), our.everything(topic, 0, "read_uncommitted"));
    }

    static void compression(KafkaScenarios our) throws Exception {
        String topic = our.topic("codecs", 1);
        List<String> sent = new ArrayList<>();
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            String[] values = IntStream.range(0, 50).mapToObj(number -> codec + number + "x".repeat(200)).toArray(String[]::new);
            try (KafkaProducer<byte[], byte[]> to = our.producer("compression.type", codec)) {
                send(to, topic, 0, values);
            }
            Collections.addAll(sent, values);
        }
        check(sent, our.everything(topic, 0, "read_uncommitted"));
    }

    static void headers(KafkaScenarios our) throws Exception {
        String topic = our.topic("headers", 1);
        try (KafkaProducer<byte[], byte[]> to = our.producer()) {
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, 0, 1_700_000_000_000L, bytes("k"), bytes("v"));
            record.headers().add("a", bytes("1")).add("a", bytes("2")).add("none", null).add("empty", new byte[0]);
            to.send(record).get();
            to.send(new ProducerRecord<>(topic, 0, bytes("tombstone"), null)).get();
            to.send(new ProducerRecord<>(topic, 0, null, bytes(""))).get();
        }
        try (KafkaConsumer<byte[], byte[]> from = our.consumer()) {
            from.assign(List.of(new TopicPartition(topic, 0)));
            List<ConsumerRecord<byte[], byte[]>> seen = read(from, 3);
            List<String> told = new ArrayList<>();
            seen.get(0).headers().forEach(header -> told.add(header.key() + "=" + text(header.value())));
            check(List.of("a=1", "a=2", "none=null", "empty="), told);
            check(1_700_000_000_000L, seen.get(0).timestamp());
            check("k", text(seen.get(0).key()));
            check("tombstone null", text(seen.get(1).key()) + " " + text(seen.get(1).value()));
            check("null ", text(seen.get(2).key()) + " " + text(seen.get(2).value()));
            check(true, seen.get(0).leaderEpoch().isPresent());
        }
    }

    static void largeRecords(KafkaScenarios our) throws Exception {
        String topic = our.topic("large", 1);
        String large = "x".repeat(1_048_000);
        our.fill(topic, 0, large);
        check(List.of(large), our.everything(topic, 0, "read_uncommitted"));
    }

    static void produceErrors(KafkaScenarios our) throws Exception {
        String topic = our.topic("errors", 1);
        try (KafkaProducer<byte[], byte[]> to = our.producer("max.request.size", 3_000_000, "max.block.ms", 10_000)) {
            refused(RecordTooLargeException.class, () -> send(to, topic, 0, "x".repeat(2_000_000)));
            refused(InvalidTopicException.class, () -> send(to, "not a topic", null, "v"));
            check(0L, send(to, topic, 0, "v").get(0).offset());
        }
    }

    // ---- consuming

    static void consumeRange(KafkaScenarios our) throws Exception {
        String topic = our.topic("range", 2);
        TopicPartition first = new TopicPartition(topic, 0);
        TopicPartition second = new TopicPartition(topic, 1);
        our.fill(topic, 0, numbers(0, 100));
        our.fill(topic, 1, numbers(100, 150));
        try (KafkaConsumer<byte[], byte[]> from = our.consumer("max.poll.records", 7)) {
            from.assign(List.of(first, second));
            Set<String> seen = new TreeSet<>(values(read(from, 150)));
            check(150, seen.size());
            check(Map.of(first, 0L, second, 0L), from.beginningOffsets(List.of(first, second)));
            check(Map.of(first, 100L, second, 50L), from.endOffsets(List.of(first, second)));
            from.seekToEnd(List.of(first));
            check(100L, from.position(first));
            from.pause(List.of(second));
            our.fill(topic, 0, "new");
            check(List.of("new"), values(read(from, 1)));
            check(2, from.partitionsFor(topic).size());
            check(true, from.listTopics().containsKey(topic));
        }
    }

    static void seek(KafkaScenarios our) throws Exception {
        String topic = our.topic("seek", 1);
        TopicPartition place = new TopicPartition(topic, 0);
        our.fill(topic, 0, numbers(0, 50));
        try (KafkaConsumer<byte[], byte[]> from = our.consumer()) {
            from.assign(List.of(place));
            for (long offset : new long[] {40, 3, 25, 0, 49}) {
                from.seek(place, offset);
                ConsumerRecord<byte[], byte[]> record = read(from, 1).get(0);
                check(offset + " " + offset, record.offset() + " " + text(record.value()));
            }
        }
    }

    static void offsetsForTimes(KafkaScenarios our) throws Exception {
        String topic = our.topic("times", 1);
        TopicPartition place = new TopicPartition(topic, 0);
        try (KafkaProducer<byte[], byte[]> to = our.producer()) {
            for (int number = 0; number < 10; number++) {
                to.send(new ProducerRecord<>(topic, 0, 1_700_000_000_000L + 1000 * number, null, bytes("v"))).get();
            }
        }
        try (KafkaConsumer<byte[], byte[]> from = our.consumer()) {
            OffsetAndTimestamp found = from.offsetsForTimes(Map.of(place, 1_700_000_004_500L)).get(place);
            check("5 1700000005000", found.offset() + " " + found.timestamp());
            check(null, from.offsetsForTimes(Map.of(place, 1_900_000_000_000L)).get(place));
        }
    }

    static void outOfRange(KafkaScenarios our) throws Exception {
        String topic = our.topic("beyond", 1);
        TopicPartition place = new TopicPartition(topic, 0);
        our.fill(topic, 0, numbers(0, 10));
        our.admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(5))).all().get();
        try (KafkaConsumer<byte[], byte[]> from = our.consumer("auto.offset.reset", "none")) {
            from.assign(List.of(place));
            from.seek(place, 2);
            refused(OffsetOutOfRangeException.class, () -> until("an error", () -> from.poll(SHORT) == null));
        }
        try (KafkaConsumer<byte[], byte[]> from = our.consumer()) {
            from.assign(List.of(place));
            from.seek(place, 1_000);
            check(List.of(numbers(5, 10)), values(read(from, 5)));
        }
    }

    // ---- groups

    /** A member that is polled by its scenario, and what it was told. */
    static final class Member implements AutoCloseable, ConsumerRebalanceListener {
        final KafkaConsumer<byte[], byte[]> consumer;
        final List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        int revoked;
        int lost;

        Member(KafkaConsumer<byte[], byte[]> consumer, String topic) {
            this.consumer = consumer;
            if (topic != null) {
                consumer.subscribe(List.of(topic), this);
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) { }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            revoked += partitions.size();
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            lost += partitions.size();
        }

        int poll() {
            consumer.poll(Duration.ofMillis(50)).forEach(records::add);
            return consumer.assignment().size();
        }

        @Override
        public void close() {
            consumer.close();
        }
    }

    static void sizes(String what, int[] expected, Member... members) {
        until(what, () -> {
            boolean equal = true;
            for (int index = 0; index < members.length; index++) {
                equal &= members[index].poll() == expected[index];
            }
            return equal;
        });
    }

    void rebalances(String word, Object... settings) throws Exception {
        String topic = topic(word, 4);
        List<Object> all = new ArrayList<>(List.of("group.id", name + "-" + word));
        Collections.addAll(all, settings);
        try (Member first = new Member(consumer(all.toArray()), topic)) {
            sizes("one member has all", new int[] {4}, first);
            try (Member second = new Member(consumer(all.toArray()), topic)) {
                sizes("two members share", new int[] {2, 2}, first, second);
                Set<TopicPartition> both = new java.util.HashSet<>(first.consumer.assignment());
                both.addAll(second.consumer.assignment());
                check(4, both.size());
                for (int partition = 0; partition < 4; partition++) {
                    fill(topic, partition, numbers(0, 5));
                }
                until("all records", () -> first.poll() + second.poll() == 4 && first.records.size() + second.records.size() >= 20);
                check(20, first.records.size() + second.records.size());
                first.consumer.commitSync();
                second.consumer.commitSync();
            }
            sizes("one member has all again", new int[] {4}, first);
            check(0, first.lost);
        }
    }

    static void groupRange(KafkaScenarios our) throws Exception {
        our.rebalances("range-group", "partition.assignment.strategy", RangeAssignor.class.getName());
    }

    static void groupCooperative(KafkaScenarios our) throws Exception {
        our.rebalances("cooperative", "partition.assignment.strategy", CooperativeStickyAssignor.class.getName());
    }

    static void groupStatic(KafkaScenarios our) throws Exception {
        String topic = our.topic("static", 2);
        String group = our.name + "-static";
        try (Member stays = new Member(our.consumer("group.id", group, "group.instance.id", "stays"), topic)) {
            Member leaves = new Member(our.consumer("group.id", group, "group.instance.id", "leaves"), topic);
            sizes("both share", new int[] {1, 1}, stays, leaves);
            Set<TopicPartition> before = new java.util.HashSet<>(leaves.consumer.assignment());
            leaves.close();
            int revoked = stays.revoked;
            leaves = new Member(our.consumer("group.id", group, "group.instance.id", "leaves"), topic);
            sizes("it is back", new int[] {1, 1}, stays, leaves);
            check(before, leaves.consumer.assignment());
            check(revoked, stays.revoked);
            leaves.close();
            our.admin.removeMembersFromConsumerGroup(group,
                    new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("leaves")))).all().get();
            sizes("the other has both", new int[] {2}, stays);
        }
    }

    static void groupCommit(KafkaScenarios our) throws Exception {
        String topic = our.topic("commit", 1);
        TopicPartition place = new TopicPartition(topic, 0);
        String group = our.name + "-commit";
        Optional<Integer> epoch;
        our.fill(topic, 0, numbers(0, 10));
        try (Member first = new Member(our.consumer("group.id", group), topic)) {
            until("records", () -> first.poll() == 1 && first.records.size() == 10);
            epoch = first.records.get(3).leaderEpoch();
            first.consumer.commitSync(Map.of(place, new OffsetAndMetadata(4, epoch, "so far")));
        }
        try (Member second = new Member(our.consumer("group.id", group), topic)) {
            until("the rest", () -> second.poll() == 1 && second.records.size() == 6);
            check(4L, second.records.get(0).offset());
            OffsetAndMetadata kept = second.consumer.committed(Set.of(place)).get(place);
            check("4 so far " + epoch, kept.offset() + " " + kept.metadata() + " " + kept.leaderEpoch());
        }
    }

    static void group848(KafkaScenarios our) throws Exception {
        our.rebalances("848", "group.protocol", "consumer");
    }

    // ---- transactions

    KafkaProducer<byte[], byte[]> transactional(String id, Object... settings) {
        List<Object> all = new ArrayList<>(List.of("transactional.id", name + "-" + id, "transaction.timeout.ms", 30_000));
        Collections.addAll(all, settings);
        return producer(all.toArray());
    }

    static void txnCommit(KafkaScenarios our) throws Exception {
        String topic = our.topic("txn-commit", 2);
        TopicPartition place = new TopicPartition(topic, 0);
        try (KafkaProducer<byte[], byte[]> to = our.transactional("commit"); KafkaConsumer<byte[], byte[]> committed = our.consumer("isolation.level", "read_committed")) {
            to.initTransactions();
            to.beginTransaction();
            send(to, topic, 0, "a", "b");
            send(to, topic, 1, "c");
            check(List.of("a", "b"), our.everything(topic, 0, "read_uncommitted"));
            check(List.of(), our.everything(topic, 0, "read_committed"));
            check(0L, committed.endOffsets(List.of(place)).get(place));
            to.commitTransaction();
            until("the commit is seen", () -> our.everything(topic, 0, "read_committed").equals(List.of("a", "b")));
            until("the commit is seen", () -> our.everything(topic, 1, "read_committed").equals(List.of("c")));
            until("the marker", () -> committed.endOffsets(List.of(place)).get(place) == 3L);
        }
    }

    static void txnAbort(KafkaScenarios our) throws Exception {
        String topic = our.topic("txn-abort", 1);
        try (KafkaProducer<byte[], byte[]> to = our.transactional("abort")) {
            to.initTransactions();
            for (int round = 0; round < 6; round++) {
                to.beginTransaction();
                send(to, topic, 0, "r" + round);
                if (round % 2 == 0) {
                    to.commitTransaction();
                } else {
                    to.abortTransaction();
                }
            }
        }
        until("the last marker", () -> our.everything(topic, 0, "read_committed").equals(List.of("r0", "r2", "r4")));
        check(List.of("r0", "r1", "r2", "r3", "r4", "r5"), our.everything(topic, 0, "read_uncommitted"));
    }

    static void txnFencing(KafkaScenarios our) throws Exception {
        String topic = our.topic("txn-fencing", 1);
        try (KafkaProducer<byte[], byte[]> first = our.transactional("fenced"); KafkaProducer<byte[], byte[]> second = our.transactional("fenced")) {
            first.initTransactions();
            first.beginTransaction();
            send(first, topic, 0, "lost");
            second.initTransactions();
            Throwable seen = error(() -> {
                send(first, topic, 0, "late");
                first.commitTransaction();
            });
            check(true, seen instanceof ProducerFencedException || seen instanceof InvalidProducerEpochException);
            second.beginTransaction();
            send(second, topic, 0, "kept");
            second.commitTransaction();
        }
        until("what the second wrote", () -> our.everything(topic, 0, "read_committed").equals(List.of("kept")));
    }

    /** Consume, transform, produce: every third transaction is given up and done again, and the worker is replaced in the middle. */
    static void txnOffsets(KafkaScenarios our) throws Exception {
        our.exactlyOnce("classic");
    }

    void exactlyOnce(String word, Object... settings) throws Exception {
        String in = topic(word + "-in", 2);
        String out = topic(word + "-out", 2);
        String group = name + "-" + word;
        fill(in, 0, numbers(0, 60));
        fill(in, 1, numbers(60, 120));
        List<Object> all = new ArrayList<>(List.of("group.id", group, "max.poll.records", 15, "isolation.level", "read_committed"));
        Collections.addAll(all, settings);
        int round = 0;
        for (int worker = 0; worker < 2; worker++) {
            try (KafkaConsumer<byte[], byte[]> from = consumer(all.toArray()); KafkaProducer<byte[], byte[]> to = transactional(word)) {
                to.initTransactions();
                from.subscribe(List.of(in));
                long end = System.currentTimeMillis() + DEADLINE_MS;
                int turns = 0;
                while (worker == 0 ? turns < 4 : committed(group, in) < 120) {
                    if (System.currentTimeMillis() > end) {
                        throw new AssertionError("it does not come to an end: " + committed(group, in));
                    }
                    List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
                    from.poll(SHORT).forEach(records::add);
                    if (records.isEmpty()) {
                        continue;
                    }
                    turns++;
                    to.beginTransaction();
                    Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
                    for (ConsumerRecord<byte[], byte[]> record : records) {
                        to.send(new ProducerRecord<>(out, record.partition(), null, record.value()));
                        next.put(new TopicPartition(in, record.partition()), new OffsetAndMetadata(record.offset() + 1));
                    }
                    to.sendOffsetsToTransaction(next, from.groupMetadata());
                    if (++round % 3 == 0) {
                        to.abortTransaction();
                        from.committed(next.keySet()).forEach((place, kept) -> from.seek(place, kept == null ? 0 : kept.offset()));
                    } else {
                        to.commitTransaction();
                    }
                }
            }
        }
        List<String> seen = new ArrayList<>();
        until("all is written", () -> {
            seen.clear();
            seen.addAll(everything(out, 0, "read_committed"));
            seen.addAll(everything(out, 1, "read_committed"));
            return seen.size() >= 120;
        });
        check(List.of(numbers(0, 120)), seen);
    }

    long committed(String group, String topic) throws Exception {
        return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().entrySet().stream()
                .filter(entry -> entry.getKey().topic().equals(topic) && entry.getValue() != null)
                .mapToLong(entry -> entry.getValue().offset()).sum();
    }

    // ---- admin

    static void topics(KafkaScenarios our) throws Exception {
        String topic = our.topic("topics", 3);
        TopicDescription told = our.admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        check("3 false", told.partitions().size() + " " + told.isInternal());
        check(topic, our.admin.describeTopics(org.apache.kafka.common.TopicCollection.ofTopicIds(List.of(told.topicId()))).allTopicIds().get().get(told.topicId()).name());
        check(true, our.admin.listTopics().names().get().contains(topic));
        refused(TopicExistsException.class, () -> our.topic("topics", 1));
        refused(InvalidTopicException.class, () -> our.admin.createTopics(List.of(new NewTopic("a b", 1, (short) 1))).all().get());
        refused(InvalidReplicationFactorException.class, () -> our.admin.createTopics(List.of(new NewTopic(our.name + "-9", 1, (short) 9))).all().get());
        refused(InvalidPartitionsException.class, () -> our.admin.createTopics(List.of(new NewTopic(our.name + "-0", 0, (short) 1))).all().get());
        NewTopic set = new NewTopic(our.name + "-set", Optional.empty(), Optional.empty()).configs(Map.of("retention.ms", "1000"));
        check("1000", our.admin.createTopics(List.of(set)).config(set.name()).get().get("retention.ms").value());
        our.admin.deleteTopics(List.of(topic)).all().get();
        refused(UnknownTopicOrPartitionException.class, () -> our.admin.describeTopics(List.of(topic)).allTopicNames().get());
        refused(UnknownTopicOrPartitionException.class, () -> our.admin.deleteTopics(List.of(topic)).all().get());
    }

    static void partitions(KafkaScenarios our) throws Exception {
        String topic = our.topic("partitions", 1);
        our.admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
        check(3, our.admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size());
        refused(InvalidPartitionsException.class, () -> our.admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(2))).all().get());
        our.fill(topic, 2, "v");
    }

    static void configs(KafkaScenarios our) throws Exception {
        String topic = our.topic("configs", 1);
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        our.admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "5000"), AlterConfigOp.OpType.SET)))).all().get();
        ConfigEntry entry = our.admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms");
        check("5000 DYNAMIC_TOPIC_CONFIG", entry.value() + " " + entry.source());
        our.admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(new ConfigEntry("retention.ms", ""), AlterConfigOp.OpType.DELETE)))).all().get();
        check(true, our.admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").isDefault());
        refused(InvalidConfigurationException.class, () -> our.admin.incrementalAlterConfigs(Map.of(resource,
                List.of(new AlterConfigOp(new ConfigEntry("nonsense", "1"), AlterConfigOp.OpType.SET)))).all().get());
        String node = our.admin.describeCluster().controller().get().idString();
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, node);
        check(false, our.admin.describeConfigs(List.of(broker)).all().get().get(broker).entries().isEmpty());
    }

    static void cluster(KafkaScenarios our) throws Exception {
        check(BROKERS, our.admin.describeCluster().nodes().get().size());
        check(false, our.admin.describeCluster().clusterId().get().isEmpty());
        check(true, our.admin.describeFeatures().featureMetadata().get().finalizedFeatures().containsKey("metadata.version"));
        check(true, our.admin.describeMetadataQuorum().quorumInfo().get().voters().size() >= BROKERS);
        refused(SecurityDisabledException.class, () -> our.admin.describeAcls(AclBindingFilter.ANY).values().get());
        check(Set.of(), our.admin.listPartitionReassignments().reassignments().get().keySet());
        String topic = our.topic("elect", 1);
        TopicPartition place = new TopicPartition(topic, 0);
        Optional<Throwable> elected = our.admin.electLeaders(ElectionType.PREFERRED, Set.of(place)).partitions().get().get(place);
        check(true, elected.isEmpty() || elected.get() instanceof ElectionNotNeededException
                || elected.get() instanceof PreferredLeaderNotAvailableException); // while a node is down
        List<Integer> replicas = our.admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().get(0).replicas()
                .stream().map(org.apache.kafka.common.Node::id).toList();
        our.admin.alterPartitionReassignments(Map.of(place, Optional.of(new org.apache.kafka.clients.admin.NewPartitionReassignment(replicas)))).all().get();
        our.admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(our.name, new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "secret"))).all().get();
        check(List.of(our.name), our.admin.describeUserScramCredentials(List.of(our.name)).users().get());
        our.admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion(our.name, ScramMechanism.SCRAM_SHA_256))).all().get();
    }

    static void groupsDescribed(KafkaScenarios our) throws Exception {
        String topic = our.topic("described", 1);
        String group = our.name + "-described";
        try (Member member = new Member(our.consumer("group.id", group, "client.id", "someone"), topic)) {
            sizes("it has its partition", new int[] {1}, member);
            var told = our.admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            check("STABLE range 1", told.state().name() + " " + told.partitionAssignor() + " " + told.members().size());
            var described = told.members().iterator().next();
            check("someone [" + topic + "-0]", described.clientId() + " " + described.assignment().topicPartitions());
            refused(GroupNotEmptyException.class, () -> our.admin.deleteConsumerGroups(List.of(group)).all().get());
        }
        check(true, our.admin.listConsumerGroups().all().get().stream().anyMatch(listed -> listed.groupId().equals(group)));
    }

    static void groupOffsets(KafkaScenarios our) throws Exception {
        String topic = our.topic("offsets", 2);
        String group = our.name + "-offsets";
        TopicPartition first = new TopicPartition(topic, 0);
        our.admin.alterConsumerGroupOffsets(group, Map.of(first, new OffsetAndMetadata(7, "by hand"), new TopicPartition(topic, 1), new OffsetAndMetadata(8))).all().get();
        OffsetAndMetadata kept = our.admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(first);
        check("7 by hand", kept.offset() + " " + kept.metadata());
        our.admin.deleteConsumerGroupOffsets(group, Set.of(first)).all().get();
        check(1, our.admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().size());
        our.admin.deleteConsumerGroups(List.of(group)).all().get();
        refused(GroupIdNotFoundException.class, () -> our.admin.deleteConsumerGroups(List.of(group)).all().get());
    }

    static void deleteRecords(KafkaScenarios our) throws Exception {
        String topic = our.topic("deleted", 1);
        TopicPartition place = new TopicPartition(topic, 0);
        our.fill(topic, 0, numbers(0, 10));
        DeletedRecords deleted = our.admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(4))).lowWatermarks().get(place).get();
        check(4L, deleted.lowWatermark());
        check(List.of(numbers(4, 10)), our.everything(topic, 0, "read_uncommitted"));
    }

    static void listOffsets(KafkaScenarios our) throws Exception {
        String topic = our.topic("listed", 1);
        TopicPartition place = new TopicPartition(topic, 0);
        try (KafkaProducer<byte[], byte[]> to = our.producer()) {
            for (long time : new long[] {1000, 3000, 2000}) {
                to.send(new ProducerRecord<>(topic, 0, 1_700_000_000_000L + time, null, bytes("v"))).get();
            }
        }
        List<String> seen = new ArrayList<>();
        for (OffsetSpec spec : List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.maxTimestamp(), OffsetSpec.forTimestamp(1_700_000_001_500L))) {
            ListOffsetsResultInfo info = our.admin.listOffsets(Map.of(place, spec)).partitionResult(place).get();
            seen.add(info.offset() + " " + info.timestamp());
        }
        check(List.of("0 -1", "3 -1", "1 1700000003000", "1 1700000003000"), seen);
    }

    static void logDirs(KafkaScenarios our) throws Exception {
        String topic = our.topic("dirs", 1);
        our.fill(topic, 0, "v".repeat(1000));
        int node = our.admin.describeCluster().controller().get().id();
        var folders = our.admin.describeLogDirs(List.of(node)).allDescriptions().get().get(node);
        long size = folders.values().stream().filter(folder -> folder.replicaInfos().containsKey(new TopicPartition(topic, 0)))
                .mapToLong(folder -> folder.replicaInfos().get(new TopicPartition(topic, 0)).size()).sum();
        check(true, size > 1000);
    }

    static void clientQuotas(KafkaScenarios our) throws Exception {
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, our.name));
        our.admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1e9))))).all().get();
        ClientQuotaFilter filter = ClientQuotaFilter.containsOnly(List.of(ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, our.name)));
        until("the quota is told", () -> quotas(our.admin, filter).equals(Map.of(entity, Map.of("producer_byte_rate", 1e9))));
        our.admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", null))))).all().get();
        until("the quota is gone", () -> quotas(our.admin, filter).isEmpty());
    }

    static Map<ClientQuotaEntity, Map<String, Double>> quotas(Admin admin, ClientQuotaFilter filter) {
        try {
            return admin.describeClientQuotas(filter).entities().get();
        } catch (InterruptedException | ExecutionException failed) {
            throw new AssertionError(failed);
        }
    }

    static void describeTransactions(KafkaScenarios our) throws Exception {
        String topic = our.topic("told", 1);
        TopicPartition place = new TopicPartition(topic, 0);
        String id = our.name + "-told";
        try (KafkaProducer<byte[], byte[]> to = our.transactional("told")) {
            to.initTransactions();
            to.beginTransaction();
            send(to, topic, 0, "v");
            var told = our.admin.describeTransactions(List.of(id)).all().get().get(id);
            check("Ongoing [" + place + "]", told.state() + " " + told.topicPartitions());
            check(List.of(id), our.admin.listTransactions().all().get().stream().map(TransactionListing::transactionalId).filter(id::equals).collect(Collectors.toList()));
            var active = our.admin.describeProducers(List.of(place)).partitionResult(place).get().activeProducers();
            check(1, active.size());
            check(java.util.OptionalLong.of(0), active.get(0).currentTransactionStartOffset());
            our.admin.fenceProducers(List.of(id)).all().get();
            check(true, error(to::commitTransaction) instanceof KafkaException);
        }
        until("nothing is open", () -> our.everything(topic, 0, "read_committed").isEmpty());
    }

    static {
        SCENARIOS.put("produce-acks", KafkaScenarios::produceAcks);
        SCENARIOS.put("produce-idempotent", KafkaScenarios::produceIdempotent);
        SCENARIOS.put("compression", KafkaScenarios::compression);
        SCENARIOS.put("headers", KafkaScenarios::headers);
        SCENARIOS.put("large-records", KafkaScenarios::largeRecords);
        SCENARIOS.put("produce-errors", KafkaScenarios::produceErrors);
        SCENARIOS.put("consume-range", KafkaScenarios::consumeRange);
        SCENARIOS.put("seek", KafkaScenarios::seek);
        SCENARIOS.put("offsets-for-times", KafkaScenarios::offsetsForTimes);
        SCENARIOS.put("out-of-range", KafkaScenarios::outOfRange);
        SCENARIOS.put("group-rebalance", KafkaScenarios::groupRange);
        SCENARIOS.put("group-cooperative", KafkaScenarios::groupCooperative);
        SCENARIOS.put("group-static", KafkaScenarios::groupStatic);
        SCENARIOS.put("group-commit", KafkaScenarios::groupCommit);
        SCENARIOS.put("group-848", KafkaScenarios::group848);
        SCENARIOS.put("txn-commit", KafkaScenarios::txnCommit);
        SCENARIOS.put("txn-abort", KafkaScenarios::txnAbort);
        SCENARIOS.put("txn-fencing", KafkaScenarios::txnFencing);
        SCENARIOS.put("txn-offsets", KafkaScenarios::txnOffsets);
        SCENARIOS.put("topics", KafkaScenarios::topics);
        SCENARIOS.put("partitions", KafkaScenarios::partitions);
        SCENARIOS.put("configs", KafkaScenarios::configs);
        SCENARIOS.put("cluster", KafkaScenarios::cluster);
        SCENARIOS.put("groups-described", KafkaScenarios::groupsDescribed);
        SCENARIOS.put("group-offsets", KafkaScenarios::groupOffsets);
        SCENARIOS.put("delete-records", KafkaScenarios::deleteRecords);
        SCENARIOS.put("list-offsets", KafkaScenarios::listOffsets);
        SCENARIOS.put("log-dirs", KafkaScenarios::logDirs);
        SCENARIOS.put("client-quotas", KafkaScenarios::clientQuotas);
        SCENARIOS.put("describe-transactions", KafkaScenarios::describeTransactions);
    }

    static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char letter : text.toCharArray()) {
            if (letter == '"' || letter == '\\') {
                quoted.append('\\').append(letter);
            } else if (letter < ' ') {
                quoted.append(String.format("\\u%04x", (int) letter));
            } else {
                quoted.append(letter);
            }
        }
        return quoted.append('"').toString();
    }

    static String told(String bootstrap, String name, String scenario) {
        long begun = System.currentTimeMillis();
        String error = "null";
        KafkaScenarios our = new KafkaScenarios(bootstrap, name + "-" + scenario);
        try {
            SCENARIOS.get(scenario).run(our);
        } catch (Throwable thrown) {
            java.io.StringWriter trace = new java.io.StringWriter();
            thrown.printStackTrace(new java.io.PrintWriter(trace));
            error = quoted(trace.toString());
        } finally {
            our.admin.close(Duration.ofSeconds(1));
        }
        return "{\"scenario\": " + quoted(scenario) + ", \"ms\": " + (System.currentTimeMillis() - begun) + ", \"error\": " + error + "}";
    }

    public static void main(String[] arguments) throws Exception {
        try {
            Class.forName("KafkaScenarios4");
        } catch (ClassNotFoundException older) {
            // this is an older version of kafka-clients
        }
        ExecutorService pool = Executors.newFixedThreadPool(AT_ONCE);
        for (int index = 2; index < arguments.length; index++) {
            String scenario = arguments[index];
            pool.submit(() -> System.out.println(told(arguments[0], arguments[1], scenario)));
        }
        pool.shutdown();
        pool.awaitTermination(300, java.util.concurrent.TimeUnit.SECONDS);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
