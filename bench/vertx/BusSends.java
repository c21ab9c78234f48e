import io.vertx.core.AbstractVerticle;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.core.eventbus.EventBus;
import io.vertx.core.eventbus.EventBusOptions;
import io.vertx.core.json.JsonObject;
import io.vertx.spi.cluster.zookeeper.ZookeeperClusterManager;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Sends per second between two Vert.x nodes, in bursts of which the last message is a request: its answer says that all of them
 * were handled, and begins the next burst. Run once with "take", then with "send": MODE ZOOKEEPER WARM_SECONDS SECONDS.
 */
public final class BusSends {
  private static final String ADDRESS = "bench.take";
  private static final String TEXT = "x".repeat(100);
  private static final int BURST = 1000;
  private static final int BURSTS = 4;

  public static void main(String[] args) throws Exception {
    JsonObject config = new JsonObject().put("zookeeperHosts", args[1]).put("rootPath", "bench.sends").put("sessionTimeout", 20_000)
        .put("connectTimeout", 3_000).put("retry", new JsonObject().put("initialSleepTime", 100).put("maxTimes", 3));
    VertxOptions loopback = new VertxOptions().setEventBusOptions(new EventBusOptions().setHost("127.0.0.1"));
    Vertx vertx = Vertx.builder().with(loopback).withClusterManager(new ZookeeperClusterManager(config)).buildClustered()
        .toCompletionStage().toCompletableFuture().get(60, TimeUnit.SECONDS);
    if (args[0].equals("take")) {
      take(vertx);
    } else {
      send(vertx, Integer.parseInt(args[2]), Integer.parseInt(args[3]));
    }
    vertx.close().toCompletionStage().toCompletableFuture().get(20, TimeUnit.SECONDS);
    System.exit(0);
  }

  private static void take(Vertx vertx) throws Exception {
    CountDownLatch registered = new CountDownLatch(1);
    vertx.eventBus().consumer(ADDRESS, message -> {
      if (message.replyAddress() != null) message.reply(true);
    }).completionHandler(done -> registered.countDown());
    registered.await();
    System.out.println("ready");
    while (System.in.read() >= 0) { } // until its standard input is closed
  }

  private static void send(Vertx vertx, int warm, int seconds) throws Exception {
    AtomicLong taken = new AtomicLong();
    vertx.deployVerticle(new AbstractVerticle() {
      @Override
      public void start() {
        for (int i = 0; i < BURSTS; i++) burst(vertx.eventBus(), taken);
      }
    });
    Thread.sleep(1000L * warm);
    List<Long> rates = new ArrayList<>();
    for (int i = 0; i < seconds; i++) {
      long count = taken.get();
      long begun = System.nanoTime();
      Thread.sleep(1000);
      rates.add((taken.get() - count) * 1_000_000_000L / (System.nanoTime() - begun));
    }
    Collections.sort(rates);
    JsonObject line = new JsonObject().put("case", "send").put("window", BURSTS);
    System.out.println(line.put("per_second", rates.get(rates.size() / 2)).encode());
  }

  private static void burst(EventBus bus, AtomicLong taken) {
    for (int i = 1; i < BURST; i++) bus.send(ADDRESS, TEXT);
    bus.request(ADDRESS, TEXT).onComplete(answered -> {
      if (answered.failed()) throw new IllegalStateException(answered.cause());
      taken.addAndGet(BURST);
      burst(bus, taken);
    });
  }
}
