package driven;

import io.vertx.core.AsyncResult;
import io.vertx.core.Future;
import io.vertx.core.Handler;
import io.vertx.core.Promise;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.core.eventbus.DeliveryOptions;
import io.vertx.core.eventbus.EventBus;
import io.vertx.core.eventbus.Message;
import io.vertx.core.eventbus.MessageConsumer;
import io.vertx.core.http.ClientAuth;
import io.vertx.core.json.Json;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import io.vertx.core.net.PemKeyCertOptions;
import io.vertx.core.net.PemTrustOptions;
import io.vertx.spi.cluster.zookeeper.ZookeeperClusterManager;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/**
 * A clustered node of Vert.x 3. Its one argument is JSON: zookeeper, session (milliseconds), host, and for TLS key, certificate, trust.
 *
 * Each line of the standard input is a command: a word, an address where it needs one, and JSON. Each is answered by one line. When the
 * input ends, the node leaves the cluster in order.
 */
public final class DrivenNode {
  private final Map<String, AtomicLong> counts = new ConcurrentHashMap<>();
  private final Map<String, MessageConsumer<Object>> consumers = new ConcurrentHashMap<>();
  private final ZookeeperClusterManager cluster;
  private final EventBus bus;
  private DeliveryOptions options = new DeliveryOptions();

  public static void main(String[] arguments) throws Exception {
    JsonObject settings = new JsonObject(arguments[0]);
    ZookeeperClusterManager cluster = new ZookeeperClusterManager(new JsonObject()
        .put("zookeeperHosts", settings.getString("zookeeper")).put("rootPath", "io.vertx")
        .put("sessionTimeout", settings.getInteger("session")).put("connectTimeout", 3000)
        .put("retry", new JsonObject().put("initialSleepTime", 100).put("intervalTimes", 10000).put("maxTimes", 5)));
    VertxOptions options = new VertxOptions().setClusterManager(cluster);
    options.getEventBusOptions().setHost(settings.getString("host")).setConnectTimeout(5_000);
    if (settings.containsKey("key")) {
      // Otherwise it connects to anybody.
      options.getEventBusOptions().setSsl(true).setTrustAll(false).setClientAuth(ClientAuth.REQUIRED)
          .setPemKeyCertOptions(new PemKeyCertOptions().setKeyPath(settings.getString("key")).setCertPath(settings.getString("certificate")))
          .setPemTrustOptions(new PemTrustOptions().addCertPath(settings.getString("trust")));
    }
    Vertx vertx = DrivenNode.<Vertx>wait(done -> Vertx.clusteredVertx(options, done));
    DrivenNode node = new DrivenNode(vertx, cluster);
    node.begin();
    JsonObject place = new JsonObject((String) cluster.getSyncMap("__vertx.haInfo").get(cluster.getNodeID())).getJsonObject("server_id");
    Answers.print(new JsonObject().put("node", cluster.getNodeID()).put("port", place.getInteger("port")));
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) node.execute(line.strip());
    DrivenNode.<Void>wait(vertx::close);
    System.exit(0);
  }

  private static <T> T wait(Consumer<Handler<AsyncResult<T>>> begin) throws Exception {
    CompletableFuture<T> done = new CompletableFuture<>();
    begin.accept(outcome -> {
      if (outcome.succeeded()) done.complete(outcome.result());
      else done.completeExceptionally(outcome.cause());
    });
    return done.get();
  }

  private DrivenNode(Vertx vertx, ZookeeperClusterManager cluster) {
    this.cluster = cluster;
    this.bus = vertx.eventBus();
  }

  private void begin() throws Exception {
    bus.registerCodec(new Shouting());
    consume("echo", message -> message.reply(message.body()));
    consume("fail", message -> message.fail(7, "no"));
    consume("headers", message -> message.reply(Answers.headers(message.headers())));
    consume("blackhole", message -> { });
  }

  private void consume(String address, Consumer<Message<Object>> handler) throws Exception {
    AtomicLong count = counts.computeIfAbsent(address, ignored -> new AtomicLong());
    MessageConsumer<Object> consumer = bus.consumer(address, message -> {
      count.incrementAndGet();
      handler.accept(message);
    });
    consumers.put(address, consumer);
    DrivenNode.<Void>wait(consumer::completionHandler);
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
    switch (command) {
      case "request": return DrivenNode.<Message<Object>>begun(done -> bus.request(address, Json.decodeValue(json), options, done));
      case "request-codec": return DrivenNode.<Message<Object>>begun(done -> bus.request(address, Typed.body(new JsonArray(json)), options, done));
      case "send": bus.send(address, Json.decodeValue(json), options); break;
      case "publish": bus.publish(address, Json.decodeValue(json), options); break;
      case "burst": for (int number = 0; number < Integer.parseInt(json); number++) bus.send(address, number); break;
      case "options": options = new DeliveryOptions(new JsonObject(json)); break;
      case "consume": consume(address, message -> message.reply(message.body())); break;
      case "ask-back": consume(address, this::askBack); break;
      case "unconsume": return DrivenNode.<Void>begun(consumers.remove(address)::unregister);
      case "consumers": return DrivenNode.<JsonArray>begun(done -> registrations(address, done));
      case "counts": return Future.succeededFuture(new JsonObject(new TreeMap<>(counts)));
      case "nodes": return Future.succeededFuture(new JsonArray(cluster.getNodes()));
      default: throw new IllegalArgumentException("no command " + command);
    }
    return Future.succeededFuture();
  }

  private static <T> Future<T> begun(Consumer<Handler<AsyncResult<T>>> begin) {
    Promise<T> done = Promise.promise();
    begin.accept(done);
    return done.future();
  }

  /** Answers, and asks with the answer; what comes then is sent on. */
  private void askBack(Message<Object> message) {
    message.replyAndRequest("and you?", new DeliveryOptions(), answer ->
        bus.send("asked-back", answer.succeeded() ? answer.result().body() : answer.cause().getMessage()));
  }

  /** The nodes that other nodes would send to: Vert.x 3 registers a node once for each address. */
  private void registrations(String address, Handler<AsyncResult<JsonArray>> done) {
    cluster.<String, Object>getAsyncMultiMap("__vertx.subs", map -> map.result().get(address, found -> {
      JsonArray names = new JsonArray();
      if (found.result() != null) for (Object one : found.result()) names.add(one.toString());
      done.handle(found.map(names));
    }));
  }
}
