import io.confluent.connect.avro.AvroConverter;
import io.confluent.kafka.schemaregistry.avro.AvroSchema;
import io.confluent.kafka.schemaregistry.avro.AvroSchemaProvider;
import io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import io.confluent.kafka.schemaregistry.client.SchemaRegistryClient;
import io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import io.confluent.kafka.serializers.KafkaAvroDeserializer;
import io.confluent.kafka.serializers.KafkaAvroSerializer;
import io.confluent.kafka.serializers.subject.TopicRecordNameStrategy;
import java.io.FileInputStream;
import java.io.InputStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;

/**
 * What Java programs do with a schema registry, by Confluent's own serializers: RegistryScenarios PROPERTIES TOPIC
 *
 * PROPERTIES is a file for clients of both Kafka and the registry. TOPIC holds three records of two schemas, which another client has
 * written; topics of the scenarios have names that begin with it. One line for each scenario on standard output: its name, a tab, and
 * what it saw. An exception is told with its causes.
 */
public class RegistryScenarios {
    interface Scenario {
        Object run() throws Exception;
    }

    static final String USER = "{\"type\":\"record\",\"name\":\"User\",\"namespace\":\"example\",\"fields\":["
        + "{\"name\":\"name\",\"type\":\"string\"},{\"name\":\"age\",\"type\":[\"null\",\"int\"],\"default\":null}]}";
    static final String STRICT = USER.replace(",\"default\":null", "").replace("\"age\"", "\"height\"");
    static final String ORDER = "{\"type\":\"record\",\"name\":\"Order\",\"namespace\":\"example\",\"fields\":["
        + "{\"name\":\"by\",\"type\":\"User\"}]}";
    static final Duration DEADLINE = Duration.ofSeconds(30);

    final Map<String, Object> settings = new HashMap<>();
    final String topic;
    final SchemaRegistryClient registry;

    RegistryScenarios(String file, String topic) throws Exception {
        Properties read = new Properties();
        try (InputStream stream = new FileInputStream(file)) {
            read.load(stream);
        }
        read.forEach((key, value) -> settings.put(key.toString(), value));
        this.topic = topic;
        this.registry = client(settings);
    }

    static SchemaRegistryClient client(Map<String, Object> settings) {
        String url = settings.get("schema.registry.url").toString();
        return new CachedSchemaRegistryClient(List.of(url), 100, List.of(new AvroSchemaProvider()), settings);
    }

    // ---- the serializers

    Map<String, Object> with(Object... changes) {
        Map<String, Object> changed = new HashMap<>(settings);
        for (int index = 0; index < changes.length; index += 2) {
            changed.put(changes[index].toString(), changes[index + 1]);
        }
        return changed;
    }

    int write(String to, Map<String, Object> changed, Object... values) throws Exception {
        changed.putIfAbsent("key.serializer", KafkaAvroSerializer.class);
        changed.put("value.serializer", KafkaAvroSerializer.class);
        try (KafkaProducer<Object, Object> producer = new KafkaProducer<>(changed)) {
            RecordMetadata last = null;
            for (Object value : values) {
                last = producer.send(new ProducerRecord<>(to, "a key", value)).get();
            }
            return (int) last.offset() + 1;
        }
    }

    List<Object> read(String from, int count, Object... changes) {
        Map<String, Object> changed = with(changes);
        changed.putIfAbsent("key.deserializer", KafkaAvroDeserializer.class);
        changed.put("value.deserializer", KafkaAvroDeserializer.class);
        List<Object> seen = new ArrayList<>();
        try (KafkaConsumer<Object, Object> consumer = new KafkaConsumer<>(changed)) {
            consumer.assign(List.of(new TopicPartition(from, 0)));
            consumer.seekToBeginning(consumer.assignment());
            while (seen.size() < count) {
                for (ConsumerRecord<Object, Object> record : consumer.poll(DEADLINE)) {
                    seen.add(record.key() == null ? record.value() : record.key() + "=" + record.value());
                }
            }
        }
        return seen;
    }

    GenericRecord user(String schema, Object age) {
        Schema parsed = new Schema.Parser().parse(schema);
        GenericRecord record = new GenericData.Record(parsed);
        record.put(0, "ann");
        record.put(1, age);
        return record;
    }

    Map<String, Object> lookingUp() {
        return with("key.serializer", StringSerializer.class, "auto.register.schemas", "false");
    }

    Object roundTrip() throws Exception {
        write(topic + "-java", with(), user(USER, 3), user(USER, null));
        return read(topic + "-java", 2);
    }

    Object subjects() throws Exception {
        Map<String, Object> named = with("value.subject.name.strategy", TopicRecordNameStrategy.class);
        write(topic + "-named", named, user(USER, 3));
        write(topic + "-bytes", with(), new byte[] {1, 2});
        List<String> subjects = new ArrayList<>(registry.getAllSubjectsByPrefix(topic + "-"));
        subjects.replaceAll(subject -> subject.substring(topic.length()));
        return subjects;
    }

    Object incompatible() throws Exception {
        write(topic + "-strict", with(), user(USER, 3));
        return write(topic + "-strict", with(), user(STRICT, 3));
    }

    Object unregistered() throws Exception {
        return write(topic + "-never", lookingUp(), user(USER, 3));
    }

    Object references() throws Exception {
        AvroSchema user = new AvroSchema(USER);
        String referred = topic + "-referred-value", orders = topic + "-orders-value";
        registry.register(referred, user);
        List<SchemaReference> references = List.of(new SchemaReference("example.User", referred, 1));
        AvroSchema order = new AvroSchema(ORDER, references, Map.of("example.User", USER), -1);
        int id = registry.register(orders, order);
        GenericRecord record = new GenericData.Record(order.rawSchema());
        record.put("by", user(USER, 3));
        Map<String, Object> latest = lookingUp();
        latest.put("use.latest.version", "true");
        write(topic + "-orders", latest, record);
        AvroSchema found = (AvroSchema) client(settings).getSchemaBySubjectAndId(orders, id);
        return read(topic + "-orders", 1, "key.deserializer", StringDeserializer.class) + " " + found.references().size() + " " + found.rawSchema().getFullName();
    }

    // ---- the client

    Object managed() throws Exception {
        String subject = topic + "-managed-value";
        AvroSchema schema = new AvroSchema(USER);
        Map<String, Object> seen = new LinkedHashMap<>();
        int id = registry.register(subject, schema);
        seen.put("same", id == client(settings).register(subject, schema) && id == client(settings).getId(subject, schema));
        seen.put("versions", registry.getAllVersions(subject));
        seen.put("version", registry.getVersion(subject, schema));
        seen.put("latest", registry.getLatestSchemaMetadata(subject).getSchema().equals(USER));
        seen.put("text", client(settings).getSchemaById(id).canonicalString().equals(USER));
        seen.put("compatible", registry.testCompatibility(subject, schema));
        seen.put("reasons", registry.testCompatibilityVerbose(subject, new AvroSchema(STRICT)).size() > 0);
        seen.put("level", registry.updateCompatibility(subject, "FULL") + " " + registry.getCompatibility(subject));
        seen.put("mode", registry.setMode("READONLY", subject) + " " + registry.getMode(subject));
        registry.setMode("READWRITE", subject);
        seen.put("deleted", registry.deleteSubject(subject) + " " + registry.deleteSubject(subject, true));
        return seen;
    }

    Object missing() throws Exception {
        return client(settings).getLatestSchemaMetadata(topic + "-missing");
    }

    Object unknownId() throws Exception {
        return client(settings).getSchemaById(1_000_000);
    }

    Object wrongPassword() throws Exception {
        return client(with("basic.auth.user.info", "admin:wrong")).getAllSubjects();
    }

    Object forbidden() throws Exception {
        return client(with("basic.auth.user.info", "ann:another")).register(topic + "-forbidden-value", new AvroSchema(USER)) > 0;
    }

    // ---- Kafka Connect's converter

    Object converter() throws Exception {
        AvroConverter converter = new AvroConverter();
        converter.configure(with(), false);
        org.apache.kafka.connect.data.Schema schema =
            SchemaBuilder.struct().name("example.Reading").field("at", org.apache.kafka.connect.data.Timestamp.SCHEMA)
                .field("celsius", org.apache.kafka.connect.data.Schema.OPTIONAL_FLOAT64_SCHEMA).build();
        Struct value = new Struct(schema).put("at", new java.util.Date(0)).put("celsius", 21.5);
        byte[] data = converter.fromConnectData(topic + "-connect", schema, value);
        AvroConverter other = new AvroConverter();
        other.configure(with(), false);
        Struct found = (Struct) other.toConnectData(topic + "-connect", data).value();
        return found.getFloat64("celsius") + " " + found.schema().name() + " " + found.schema().field("at").schema().name();
    }

    static String told(Throwable thrown) {
        StringBuilder text = new StringBuilder();
        for (Throwable each = thrown; each != null; each = each.getCause()) {
            if (!(each instanceof ExecutionException)) {
                text.append(text.length() == 0 ? "" : " <- ").append(each.getClass().getSimpleName());
                boolean isRest = each instanceof RestClientException;
                text.append(isRest ? " " + ((RestClientException) each).getStatus() : "").append(": ").append(each.getMessage());
            }
        }
        return text.toString();
    }

    public static void main(String[] words) throws Exception {
        RegistryScenarios our = new RegistryScenarios(words[0], words[1]);
        Map<String, Scenario> scenarios = new LinkedHashMap<>();
        scenarios.put("read-others", () -> our.read(our.topic, 3));
        scenarios.put("round-trip", our::roundTrip);
        scenarios.put("subjects", our::subjects);
        scenarios.put("incompatible", our::incompatible);
        scenarios.put("unregistered", our::unregistered);
        scenarios.put("references", our::references);
        scenarios.put("managed", our::managed);
        scenarios.put("missing", our::missing);
        scenarios.put("unknown-id", our::unknownId);
        scenarios.put("wrong-password", our::wrongPassword);
        scenarios.put("forbidden", our::forbidden);
        scenarios.put("converter", our::converter);
        for (Map.Entry<String, Scenario> scenario : scenarios.entrySet()) {
            String seen;
            try {
                seen = String.valueOf(scenario.getValue().run());
            } catch (Exception thrown) {
                seen = told(thrown);
            }
            System.out.println(scenario.getKey() + "\t" + seen.replace('\n', ' '));
        }
    }
}
