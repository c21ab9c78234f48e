import java.io.File;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Word counts by Kafka Streams whose tasks the broker assigns (group.protocol=streams).
 *
 * count SERVERS NAME FOLDER GUARANTEE STANDBYS  two instances, one of which ends half-way; prints what the group and the
 *                                               results came to, a line each
 * run SERVERS NAME FOLDER GUARANTEE STANDBYS    one instance until the process is killed; prints its states
 */
public final class StreamsScenarios {
    private static final int PARTITIONS = 4;
    private static final int LINES = 400;
    private static final int WORDS = 10;
    private static final long WAIT_MS_MAX = 60_000;

    private final String servers;
    private final String name;
    private final String folder;
    private final String guarantee;
    private final String standbys;

    private StreamsScenarios(String[] words) {
        servers = words[1];
        name = words[2];
        folder = words[3];
        guarantee = words[4];
        standbys = words[5];
    }

    public static void main(String[] words) throws Exception {
        StreamsScenarios scenario = new StreamsScenarios(words);
        if (words[0].equals("run")) {
            KafkaStreams instance = scenario.instance("run");
            instance.setStateListener((now, before) -> tell("state " + now));
            instance.start();
            Thread.sleep(Long.MAX_VALUE);
        }
        scenario.count();
    }

    private void count() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            NewTopic lines = new NewTopic(name + "-lines", PARTITIONS, (short) -1);
            admin.createTopics(List.of(lines, new NewTopic(name + "-counts", 2, (short) -1))).all().get();
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, name);
            ConfigEntry entry = new ConfigEntry("streams.num.standby.replicas", standbys);
            admin.incrementalAlterConfigs(Map.of(group, List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET)))).all().get();
            KafkaStreams one = instance("one");
            KafkaStreams other = instance("other");
            one.start();
            other.start();
            await(() -> has(admin, 2), "stable with two members");
            describe(admin);
            say(0, LINES / 2);
            other.close(Duration.ofSeconds(30));
            await(() -> has(admin, 1), "stable with one member");
            say(LINES / 2, LINES);
            results();
            describe(admin);
            one.close(Duration.ofSeconds(30));
            await(() -> described(admin).groupState() == GroupState.EMPTY, "empty");
            admin.deleteStreamsGroups(List.of(name)).all().get();
        }
    }

    private KafkaStreams instance(String instance) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(name + "-lines")
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word)
            .count(Materialized.as("counts"))
            .toStream()
            .to(name + "-counts", Produced.with(Serdes.String(), Serdes.Long()));
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, name);
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, guarantee);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, folder + File.separator + instance);
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        properties.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        return new KafkaStreams(builder.build(), properties);
    }

    private void say(int from, int to) {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers);
        StringSerializer strings = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, strings, strings)) {
            for (int line = from; line < to; line++) {
                producer.send(new ProducerRecord<>(name + "-lines", "line " + line, "word" + line % WORDS + " all"));
            }
        }
    }

    /** The last count of each word; with exactly-once also whether each number came once. */
    private void results() {
        Map<String, List<Long>> counts = new TreeMap<>();
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", servers, "group.id", name + "-reader", "auto.offset.reset", "earliest",
            "isolation.level", "read_committed");
        long end = System.currentTimeMillis() + WAIT_MS_MAX;
        try (KafkaConsumer<String, Long> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new LongDeserializer())) {
            consumer.subscribe(List.of(name + "-counts"));
            while (sum(counts) < 2L * LINES && System.currentTimeMillis() < end) {
                for (ConsumerRecord<String, Long> record : consumer.poll(Duration.ofMillis(200))) {
                    counts.computeIfAbsent(record.key(), word -> new ArrayList<>()).add(record.value());
                }
            }
        }
        boolean isExact = counts.values().stream().allMatch(numbers -> {
            for (int at = 0; at < numbers.size(); at++) {
                if (numbers.get(at) != at + 1) {
                    return false;
                }
            }
            return true;
        });
        Map<String, Long> last = new TreeMap<>();
        counts.forEach((word, numbers) -> last.put(word, numbers.get(numbers.size() - 1)));
        tell("counts " + last);
        tell("exact " + (isExact || guarantee.equals(StreamsConfig.AT_LEAST_ONCE)));
    }

    private static long sum(Map<String, List<Long>> counts) {
        return counts.values().stream().mapToLong(numbers -> numbers.get(numbers.size() - 1)).sum();
    }

    private StreamsGroupDescription described(Admin admin) {
        try {
            return admin.describeStreamsGroups(List.of(name)).describedGroups().get(name).get();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private boolean has(Admin admin, int members) {
        try {
            boolean isThere = admin.listGroups().all().get().stream().map(GroupListing::groupId).anyMatch(name::equals);
            if (!isThere) {
                return false;
            }
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
        StreamsGroupDescription group = described(admin);
        return group.groupState() == GroupState.STABLE && group.members().size() == members;
    }

    private void describe(Admin admin) throws Exception {
        for (GroupListing listing : admin.listGroups().all().get()) {
            if (listing.groupId().equals(name)) {
                tell("listed " + listing.type().orElse(GroupType.UNKNOWN) + " " + listing.groupState().get());
            }
        }
        StreamsGroupDescription group = described(admin);
        int active = group.members().stream()
            .mapToInt(member -> member.assignment().activeTasks().stream().mapToInt(task -> task.partitions().size()).sum()).sum();
        int standby = group.members().stream()
            .mapToInt(member -> member.assignment().standbyTasks().stream().mapToInt(task -> task.partitions().size()).sum()).sum();
        tell("members " + group.members().size() + " active " + active + " standby " + standby);
        tell("subtopologies " + group.subtopologies().size());
    }

    private static void await(BooleanSupplier condition, String what) throws InterruptedException {
        long end = System.currentTimeMillis() + WAIT_MS_MAX;
        while (!condition.getAsBoolean()) {
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException("not " + what + " in time");
            }
            Thread.sleep(50);
        }
    }

    private static void tell(String line) {
        System.out.println(line);
    }
}
