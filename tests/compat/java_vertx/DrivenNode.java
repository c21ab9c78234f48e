package driven;

import io.vertx.core.AbstractVerticle;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.eventbus.DeliveryOptions;
import io.vertx.core.eventbus.EventBus;
import io.vertx.core.eventbus.EventBusOptions;
import io.vertx.core.eventbus.Message;
import io.vertx.core.eventbus.MessageConsumer;
import io.vertx.core.eventbus.MessageProducer;
import io.vertx.core.http.ClientAuth;
import io.vertx.core.json.Json;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import io.vertx.core.net.PemKeyCertOptions;
import io.vertx.core.net.PemTrustOptions;
import io.vertx.core.spi.cluster.RegistrationInfo;
import io.vertx.serviceproxy.ServiceBinder;
import io.vertx.serviceproxy.ServiceProxyBuilder;
import io.vertx.spi.cluster.zookeeper.ZookeeperClusterManager;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/**
 * A clustered Vert.x node. Its one argument is JSON: zookeeper, session (milliseconds), host, and for TLS key, certificate, trust, clientAuth.
 *
 * Each line of the standard input is a command: a word, an address where it needs one, and JSON. Each is answered by one line. When the
 * input ends, the node leaves the cluster in order.
 */
public final class DrivenNode {
  private final Map<String, AtomicLong> counts = new ConcurrentHashMap<>();
  private final Map<String, MessageConsumer<Object>> consumers = new ConcurrentHashMap<>();
  private final Map<String, Sequences> sequences = new ConcurrentHashMap<>();
  private final ZookeeperClusterManager cluster;
  private final Vertx vertx;
  private final EventBus bus;
  private DeliveryOptions options = new DeliveryOptions();
  private Load load;
  private Promise<Integer> churned;
  private volatile boolean isChurning = true;

  public static void main(String[] arguments) throws Exception {
    JsonObject settings = new JsonObject(arguments[0]);
    ZookeeperClusterManager cluster = new ZookeeperClusterManager(new JsonObject()
        .put("zookeeperHosts", settings.getString("zookeeper")).put("rootPath", "io.vertx")
        .put("sessionTimeout", settings.getInteger("session")).put("connectTimeout", 3000)
        .put("retry", new JsonObject().put("initialSleepTime", 100).put("intervalTimes", 10000).put("maxTimes", 5)));
    VertxOptions options = new VertxOptions().setEventBusOptions(busOptions(settings));
    Vertx vertx = wait(Vertx.builder().with(options).withClusterManager(cluster).buildClustered());
    DrivenNode node = new DrivenNode(vertx, cluster);
    node.begin();
    Answers.print(new JsonObject().put("node", cluster.getNodeId()).put("port", cluster.getNodeInfo().port()));
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) node.execute(line.strip());
    wait(vertx.close());
    System.exit(0);
  }

  private static EventBusOptions busOptions(JsonObject settings) {
    EventBusOptions options = new EventBusOptions().setHost(settings.getString("host")).setConnectTimeout(5_000)
        .setClusterPingInterval(settings.getLong("pingInterval", 20_000L));
    if (settings.containsKey("key")) {
      // Otherwise it connects to anybody.
      options.setSsl(true).setTrustAll(false).setKeyCertOptions(new PemKeyCertOptions().setKeyPath(settings.getString("key")).setCertPath(settings.getString("certificate")))
          .setTrustOptions(new PemTrustOptions().addCertPath(settings.getString("trust")))
          .setClientAuth(ClientAuth.valueOf(settings.getString("clientAuth")));
    }
    return options;
  }

  private static <T> T wait(Future<T> future) throws Exception {
    return future.toCompletionStage().toCompletableFuture().get();
  }

  private DrivenNode(Vertx vertx, ZookeeperClusterManager cluster) {
    this.vertx = vertx;
    this.cluster = cluster;
    this.bus = vertx.eventBus();
  }

  private void begin() throws Exception {
    bus.registerCodec(new Shouting());
    consume("echo", message -> message.reply(message.body()));
    consume("fail", message -> message.fail(7, "no"));
    consume("headers", message -> message.reply(Answers.headers(message.headers())));
    consume("blackhole", message -> { });
    wait(Registered.in(new ServiceBinder(vertx).setAddress("calculator").register(Calculator.class, new CalculatorInJava())));
  }

  private void consume(String address, Consumer<Message<Object>> handler) throws Exception {
    MessageConsumer<Object> consumer = bus.consumer(address, counting(address, handler));
    consumers.put(address, consumer);
    wait(Registered.in(consumer));
  }

  private io.vertx.core.Handler<Message<Object>> counting(String address, Consumer<Message<Object>> handler) {
    AtomicLong count = counts.computeIfAbsent(address, ignored -> new AtomicLong());
    return message -> {
      count.incrementAndGet();
      handler.accept(message);
    };
  }

  private void execute(String line) {
    String[] words = line.split(" ", 3);
    String address = words.length > 1 ? words[1] : "";
    String json = words.length > 2 ? words[2] : "null";
    try {
      result(words[0], address, json).onComplete(Answers::outcome);
    } catch (Exception wrong) {
      Answers.print(Answers.failure(new JsonObject(), wrong));
    }
  }

  private Future<?> result(String command, String address, String json) throws Exception {
    return switch (command) {
      case "request" -> bus.request(address, Json.decodeValue(json), options);
      case "send" -> bus.sender(address, options).write(Json.decodeValue(json));
      case "publish" -> bus.publisher(address, options).write(Json.decodeValue(json));
      case "add" -> calculator(address).add(new JsonArray(json).getInteger(0), new JsonArray(json).getInteger(1));
      case "describe" -> calculator(address).describe(new JsonObject(json));
      case "refuse" -> calculator(address).refuse(new JsonArray(json).getInteger(0), new JsonArray(json).getString(1));
      case "unchurn" -> unchurn();
      case "flood" -> flood(address, new JsonArray(json));
      case "consumers" -> registrations(address).map(DrivenNode::described);
      case "unconsume" -> consumers.remove(address).unregister();
      case "last-words" -> vertx.deployVerticle(lastWords(address, json));
      default -> Future.succeededFuture(atOnce(command, address, json));
    };
  }

  private Object atOnce(String command, String address, String json) throws Exception {
    switch (command) {
      case "options" -> options = deliveryOptions(new JsonObject(json));
      case "consume" -> consume(address, message -> message.reply(message.body()));
      case "consume-locally" -> bus.localConsumer(address, counting(address, message -> message.reply("local")));
      case "collect" -> collect(address);
      case "churn" -> {
        churned = Promise.promise();
        churn(address, 1);
      }
      case "burst" -> {
        // From a thread that has no context of Vert.x.
        for (int number = 0; number < Integer.parseInt(json); number++) bus.send(address, number);
      }
      case "fill" -> fill(address, new JsonArray(json));
      case "ask-back" -> consume(address, this::askBack);
      case "collected" -> {
        return sequences.get(address).figures();
      }
      case "pause" -> consumers.get(address).pause();
      case "resume" -> consumers.get(address).resume();
      case "load" -> load = new Load(vertx, address, options, Integer.parseInt(json));
      case "loaded" -> {
        return load.figures();
      }
      case "unload" -> load.stop();
      case "counts" -> {
        return new JsonObject(new TreeMap<>(counts));
      }
      case "nodes" -> {
        return new JsonArray(cluster.getNodes());
      }
      default -> throw new IllegalArgumentException("no command " + command);
    }
    return null;
  }

  /** As Vert.x reads them from JSON; pairs are headers whose names may repeat. */
  private static DeliveryOptions deliveryOptions(JsonObject of) {
    DeliveryOptions found = new DeliveryOptions(of);
    for (Object pair : of.getJsonArray("pairs", new JsonArray())) found.addHeader(((JsonArray) pair).getString(0), ((JsonArray) pair).getString(1));
    return found;
  }

  private void collect(String address) throws Exception {
    consume(address, sequences.computeIfAbsent(address, ignored -> new Sequences())::note);
  }

  /** Sends or publishes [sender, count, "send" or "publish"] numbers in their order, and tells how many could not be sent. */
  private Future<JsonObject> flood(String address, JsonArray of) {
    Promise<JsonObject> done = Promise.promise();
    long first = Sequences.first(of.getLong(0));
    MessageProducer<Object> producer = of.getString(2).equals("publish") ? bus.publisher(address, options) : bus.sender(address, options);
    vertx.runOnContext(ignored -> more(producer, first, first + of.getLong(1), 0, done));
    return done.future();
  }

  /** Sends [count, size]: so many messages of so many bytes, and none waits for another. */
  private void fill(String address, JsonArray of) {
    Buffer bytes = Buffer.buffer(new byte[of.getInteger(1)]);
    for (int number = 0; number < of.getInteger(0); number++) bus.send(address, bytes);
  }

  /** Registers one more consumer and takes it back, again and again until `unchurn`, which tells how often. */
  private void churn(String address, int round) {
    MessageConsumer<Object> passing = bus.consumer(address, message -> { });
    Registered.in(passing).compose(ignored -> passing.unregister()).onComplete(done -> {
      if (isChurning && done.succeeded()) churn(address, round + 1);
      else if (done.succeeded()) churned.complete(round);
      else churned.fail(done.cause());
    });
  }

  private Future<Integer> unchurn() {
    isChurning = false;
    return churned.future();
  }

  /** Answers, and asks with the answer; what comes then is sent on. */
  private void askBack(Message<Object> message) {
    message.replyAndRequest("and you?", new DeliveryOptions().setLocalOnly(true)).onComplete(answer ->
        bus.send("asked-back", answer.succeeded() ? answer.result().body() : answer.cause().getMessage()));
  }

  /** A thousand at a time: Vert.x itself does not hold up a sender. */
  private void more(MessageProducer<Object> producer, long next, long end, long failed, Promise<JsonObject> done) {
    if (next == end) {
      done.complete(new JsonObject().put("failed", failed));
      return;
    }
    long stop = Math.min(end, next + 1_000);
    long[] open = {stop - next, failed};
    for (long value = next; value < stop; value++) {
      producer.write(value).onComplete(written -> {
        if (written.failed()) open[1]++;
        if (--open[0] == 0) vertx.runOnContext(ignored -> more(producer, stop, end, open[1], done));
      });
    }
  }

  private AbstractVerticle lastWords(String address, String json) {
    return new AbstractVerticle() {
      @Override
      public void stop(Promise<Void> stopped) {
        vertx.eventBus().request(address, Json.decodeValue(json)).<Void>mapEmpty().onComplete(stopped);
      }
    };
  }

  private Calculator calculator(String address) {
    return new ServiceProxyBuilder(vertx).setAddress(address).setOptions(options).build(Calculator.class);
  }

  private Future<List<RegistrationInfo>> registrations(String address) {
    Promise<List<RegistrationInfo>> found = Promise.promise();
    cluster.getRegistrations(address, found);
    return found.future();
  }

  /** Those that other nodes see as well. */
  private static JsonArray described(List<RegistrationInfo> registrations) {
    JsonArray found = new JsonArray();
    for (RegistrationInfo one : registrations == null ? List.<RegistrationInfo>of() : registrations) {
      if (!one.localOnly()) found.add(new JsonObject().put("node", one.nodeId()).put("number", one.seq()));
    }
    return found;
  }
}
