import io.vertx.core.AbstractVerticle;
import io.vertx.core.DeploymentOptions;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.eventbus.EventBusOptions;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import io.vertx.core.shareddata.AsyncMap;
import io.vertx.core.shareddata.Lock;
import io.vertx.core.shareddata.SharedData;
import io.vertx.spi.cluster.zookeeper.ZookeeperClusterManager;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Base64;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/**
 * A node of a real Vert.x cluster that does what lines of JSON on standard input say, through Vert.x's own SharedData,
 * and takes part in its high availability.
 *
 *   SharedNode ZOOKEEPER SESSION_MS [GROUP QUORUM]
 *   {"do": "add", "name": "hits", "value": 1}  ->  {"ok": true, "class": "java.lang.Long", "value": 1}
 */
public class SharedNode {
  private static final long WAIT_S_MAX = 60;
  private static final Map<String, JsonObject> running = new ConcurrentHashMap<>();

  /** What is deployed by `deploy`, here or on the node that this one's verticles go to. */
  public static class Shown extends AbstractVerticle {
    @Override
    public void start() {
      running.put(deploymentID(), config());
    }

    @Override
    public void stop() {
      running.remove(deploymentID());
    }
  }

  private final Vertx vertx;
  private final SharedData shared;
  private final Map<String, Lock> locks = new ConcurrentHashMap<>();

  private SharedNode(Vertx vertx) {
    this.vertx = vertx;
    this.shared = vertx.sharedData();
  }

  public static void main(String[] arguments) throws Exception {
    JsonObject settings = new JsonObject()
      .put("zookeeperHosts", arguments[0])
      .put("sessionTimeout", Integer.parseInt(arguments[1]))
      .put("rootPath", "io.vertx");
    ZookeeperClusterManager manager = new ZookeeperClusterManager(settings);
    VertxOptions options = new VertxOptions().setEventBusOptions(new EventBusOptions().setHost("127.0.0.1"));
    if (arguments.length > 2) {
      options.setHAEnabled(true).setHAGroup(arguments[2]).setQuorumSize(Integer.parseInt(arguments[3]));
    }
    Vertx vertx = wait(Vertx.builder().with(options).withClusterManager(manager).buildClustered());
    SharedNode node = new SharedNode(vertx);
    say(new JsonObject().put("node", manager.getNodeId()));
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      say(node.answer(new JsonObject(line)));
    }
    wait(vertx.close());
    System.exit(0);
  }

  private JsonObject answer(JsonObject command) {
    try {
      Object value = done(command);
      JsonObject answer = new JsonObject().put("ok", true);
      return value == null ? answer.putNull("value")
        : answer.put("class", value.getClass().getName()).put("value", shown(value));
    } catch (Throwable error) {
      return new JsonObject().put("ok", false).put("error", String.valueOf(error));
    }
  }

  private Object done(JsonObject command) throws Exception {
    String name = command.getString("name");
    switch (command.getString("do")) {
      case "get":
        return wait(wait(shared.getCounter(name)).get());
      case "increment":
        return wait(wait(shared.getCounter(name)).incrementAndGet());
      case "add":
        return wait(wait(shared.getCounter(name)).addAndGet(command.getLong("value")));
      case "compareAndSet":
        return wait(wait(shared.getCounter(name)).compareAndSet(command.getLong("expected"), command.getLong("value")));
      case "lock":
        locks.put(name, wait(shared.getLockWithTimeout(name, command.getLong("timeout"))));
        return null;
      case "unlock":
        locks.remove(name).release();
        return null;
      case "deploy":
        return wait(vertx.deployVerticle(Shown.class.getName(),
          new DeploymentOptions().setHa(true).setConfig(command.getJsonObject("value"))));
      case "running":
        return new JsonArray(new java.util.ArrayList<>(running.values()));
      default:
        return ofMap(command, wait(shared.getClusterWideMap(name)));
    }
  }

  private static Object ofMap(JsonObject command, AsyncMap<Object, Object> map) throws Exception {
    Object key = command.getValue("key"), value = given(command);
    switch (command.getString("do")) {
      case "read":
        return wait(map.get(key));
      case "put":
        return wait(map.put(key, value));
      case "putWithTtl":
        return wait(map.put(key, value, command.getLong("ttl")));
      case "putIfAbsent":
        return wait(map.putIfAbsent(key, value));
      case "replace":
        return wait(map.replace(key, value));
      case "replaceIfPresent":
        return wait(map.replaceIfPresent(key, command.getValue("expected"), value));
      case "remove":
        return wait(map.remove(key));
      case "removeIfPresent":
        return wait(map.removeIfPresent(key, value));
      case "keys":
        JsonArray keys = new JsonArray();
        wait(map.keys()).forEach(keys::add);
        return keys;
      case "size":
        return wait(map.size());
      case "clear":
        return wait(map.clear());
      default:
        throw new IllegalArgumentException(command.encode());
    }
  }

  /** The value of the command, as the Java type that its "type" names. */
  private static Object given(JsonObject command) {
    switch (command.getString("type", "")) {
      case "bytes":
        return Base64.getDecoder().decode(command.getString("value"));
      case "buffer":
        return Buffer.buffer(Base64.getDecoder().decode(command.getString("value")));
      case "long":
        return command.getLong("value");
      case "short":
        return command.getInteger("value").shortValue();
      case "byte":
        return command.getInteger("value").byteValue();
      case "float":
        return command.getFloat("value");
      case "char":
        return command.getString("value").charAt(0);
      case "instant":
        return java.time.Instant.parse(command.getString("value"));
      default:
        return command.getValue("value");
    }
  }

  private static Object shown(Object value) {
    if (value instanceof byte[]) {
      return Base64.getEncoder().encodeToString((byte[]) value);
    }
    if (value instanceof Buffer) {
      return Base64.getEncoder().encodeToString(((Buffer) value).getBytes());
    }
    return value instanceof Number || value instanceof Boolean || value instanceof JsonObject
      || value instanceof JsonArray ? value : value.toString();
  }

  private static <T> T wait(Future<T> future) throws Exception {
    return future.toCompletionStage().toCompletableFuture().get(WAIT_S_MAX, TimeUnit.SECONDS);
  }

  private static void say(JsonObject line) {
    System.out.println(line.encode());
    System.out.flush();
  }
}
