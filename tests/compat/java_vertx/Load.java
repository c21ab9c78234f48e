package driven;

import io.vertx.core.Vertx;
import io.vertx.core.eventbus.DeliveryOptions;
import io.vertx.core.eventbus.ReplyException;
import io.vertx.core.json.JsonObject;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;

/** Requests without a break, each with the same time for its answer: how each ended, and the longest time without an answer. */
final class Load {
  private final Vertx vertx;
  private final String address;
  private final DeliveryOptions options;
  private final ConcurrentHashMap<String, LongAdder> ended = new ConcurrentHashMap<>();
  private final AtomicLong answeredNs = new AtomicLong(System.nanoTime());
  private final AtomicLong longestNs = new AtomicLong();
  private final AtomicLong slowestNs = new AtomicLong();
  private volatile boolean running = true;

  Load(Vertx vertx, String address, DeliveryOptions options, int window) {
    this.vertx = vertx;
    this.address = address;
    this.options = options;
    for (int number = 0; number < window; number++) ask();
  }

  private void ask() {
    long begunNs = System.nanoTime();
    vertx.eventBus().request(address, "load", options).onComplete(outcome -> {
      long nowNs = System.nanoTime();
      slowestNs.accumulateAndGet(nowNs - begunNs, Math::max);
      String how = "answered";
      if (outcome.succeeded()) longestNs.accumulateAndGet(nowNs - answeredNs.getAndSet(nowNs), Math::max);
      else how = outcome.cause() instanceof ReplyException failure ? failure.failureType().name() : outcome.cause().getClass().getName();
      ended.computeIfAbsent(how, ignored -> new LongAdder()).increment();
      // A millisecond between two: a failure at once must not become a busy loop.
      if (running) vertx.setTimer(1, ignored -> ask());
    });
  }

  JsonObject figures() {
    JsonObject found = new JsonObject();
    ended.forEach((how, count) -> found.put(how, count.sum()));
    return new JsonObject().put("ended", found).put("longest_pause_ms", longestNs.get() / 1_000_000).put("slowest_ms", slowestNs.get() / 1_000_000);
  }

  void stop() {
    running = false;
  }
}
