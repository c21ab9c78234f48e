import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidRegularExpression;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The scenarios that kafka-clients have since version 4: the consumer protocol (KIP-848), share groups (KIP-932), new calls of admins. */
final class KafkaScenarios4 extends KafkaScenarios {
    private KafkaScenarios4() {
        super("", "");
    }

    static void exactlyOnce848(KafkaScenarios our) throws Exception {
        our.exactlyOnce("848-eos", "group.protocol", "consumer");
    }

    static void described848(KafkaScenarios our) throws Exception {
        String topic = our.topic("848-told", 2);
        String group = our.name + "-848-told";
        try (Member member = new Member(our.consumer("group.id", group, "group.protocol", "consumer", "group.remote.assignor", "range"), topic)) {
            sizes("it has its partitions", new int[] {2}, member);
            var told = our.admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            check("Stable CONSUMER range 1", told.groupState() + " " + told.type().name() + " " + told.partitionAssignor() + " " + told.members().size());
            check(2, told.members().iterator().next().assignment().topicPartitions().size());
        }
        GroupListing listed = our.admin.listGroups().all().get().stream().filter(one -> one.groupId().equals(group)).findFirst().get();
        check("Optional[Consumer] consumer", listed.type().map(GroupType::toString) + " " + listed.protocol());
    }

    static void pattern(KafkaScenarios our) throws Exception {
        String first = our.topic("pattern-a", 1);
        our.topic("else", 1);
        try (Member member = new Member(our.consumer("group.id", our.name, "group.protocol", "consumer", "metadata.max.age.ms", 500), null)) {
            member.consumer.subscribe(new SubscriptionPattern(our.name + "-pattern-.*"), member);
            sizes("the first topic", new int[] {1}, member);
            check(Set.of(new TopicPartition(first, 0)), member.consumer.assignment());
        }
        try (Member member = new Member(our.consumer("group.id", our.name + "-bad", "group.protocol", "consumer"), null)) {
            member.consumer.subscribe(new SubscriptionPattern("(not closed"), member);
            refused(InvalidRegularExpression.class, () -> until("an error", () -> member.poll() < 0));
        }
    }

    static KafkaShareConsumer<byte[], byte[]> shareConsumer(KafkaScenarios our, String group, Object... settings) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", our.bootstrap, "group.id", group));
        put(all, settings);
        return new KafkaShareConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static void groupSetting(KafkaScenarios our, String group, String setting, String value) throws Exception {
        our.admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group),
                List.of(new AlterConfigOp(new ConfigEntry(setting, value), AlterConfigOp.OpType.SET)))).all().get();
    }

    /** Two consumers see each record once; what is released comes again, with its count; what is rejected does not. */
    static void share(KafkaScenarios our) throws Exception {
        String topic = our.topic("share", 1);
        String group = our.name + "-share";
        groupSetting(our, group, "share.auto.offset.reset", "earliest");
        our.fill(topic, 0, numbers(0, 20));
        Map<String, Integer> accepted = new TreeMap<>();
        Set<String> released = new HashSet<>();
        Set<String> rejected = new HashSet<>();
        try (KafkaShareConsumer<byte[], byte[]> first = shareConsumer(our, group, "share.acknowledgement.mode", "explicit");
                KafkaShareConsumer<byte[], byte[]> second = shareConsumer(our, group, "share.acknowledgement.mode", "explicit")) {
            first.subscribe(List.of(topic));
            second.subscribe(List.of(topic));
            until("all are settled", () -> {
                for (KafkaShareConsumer<byte[], byte[]> one : List.of(first, second)) {
                    for (ConsumerRecord<byte[], byte[]> record : one.poll(SHORT)) {
                        String value = text(record.value());
                        if (value.endsWith("3") && released.add(value)) {
                            check((short) 1, record.deliveryCount().get());
                            one.acknowledge(record, AcknowledgeType.RELEASE);
                        } else if (value.endsWith("7")) {
                            check(true, rejected.add(value));
                            one.acknowledge(record, AcknowledgeType.REJECT);
                        } else {
                            check((short) (value.endsWith("3") ? 2 : 1), record.deliveryCount().get());
                            accepted.merge(value, 1, Integer::sum);
                            one.acknowledge(record, AcknowledgeType.ACCEPT);
                        }
                    }
                    one.commitSync().forEach((place, error) -> check(false, error.isPresent()));
                }
                return accepted.size() == 18 && rejected.size() == 2;
            });
            check(18, accepted.values().stream().mapToInt(Integer::intValue).sum());
            var told = our.admin.describeShareGroups(List.of(group)).all().get().get(group);
            check("Stable 2", told.groupState() + " " + told.members().size());
        }
        TopicPartition place = new TopicPartition(topic, 0);
        var offsets = our.admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(group);
        check(true, offsets.get().containsKey(place));
        our.admin.alterShareGroupOffsets(group, Map.of(place, 5L)).all().get();
        try (KafkaShareConsumer<byte[], byte[]> again = shareConsumer(our, group)) {
            again.subscribe(List.of(topic));
            List<String> seen = new ArrayList<>();
            until("what is read again", () -> {
                again.poll(SHORT).forEach(record -> seen.add(text(record.value())));
                return seen.size() >= 15;
            });
            check(List.of(numbers(5, 20)), seen);
            again.commitSync();
        }
        our.admin.deleteShareGroups(List.of(group)).all().get();
    }

    static void groupConfigs(KafkaScenarios our) throws Exception {
        String group = our.name + "-configs";
        groupSetting(our, group, "consumer.session.timeout.ms", "50000");
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        ConfigEntry entry = our.admin.describeConfigs(List.of(resource)).all().get().get(resource).get("consumer.session.timeout.ms");
        check("50000 DYNAMIC_GROUP_CONFIG", entry.value() + " " + entry.source());
        Set<String> listed = our.admin.listConfigResources(Set.of(ConfigResource.Type.GROUP), new ListConfigResourcesOptions()).all().get().stream()
                .map(ConfigResource::name).collect(Collectors.toSet());
        check(true, listed.contains(group));
    }

    static void forceTerminated(KafkaScenarios our) throws Exception {
        String topic = our.topic("terminated", 1);
        try (KafkaProducer<byte[], byte[]> to = our.transactional("terminated")) {
            to.initTransactions();
            to.beginTransaction();
            send(to, topic, 0, "v");
            our.admin.forceTerminateTransaction(our.name + "-terminated").result().get();
        }
        check(List.of(), our.everything(topic, 0, "read_committed"));
    }

    static {
        SCENARIOS.put("exactly-once-848", KafkaScenarios4::exactlyOnce848);
        SCENARIOS.put("described-848", KafkaScenarios4::described848);
        SCENARIOS.put("pattern", KafkaScenarios4::pattern);
        SCENARIOS.put("group-share", KafkaScenarios4::share);
        SCENARIOS.put("group-configs", KafkaScenarios4::groupConfigs);
        SCENARIOS.put("force-terminated", KafkaScenarios4::forceTerminated);
    }
}
