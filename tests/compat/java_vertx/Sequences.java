package driven;

import io.vertx.core.eventbus.Message;
import io.vertx.core.json.JsonObject;
import java.util.HashMap;
import java.util.Map;

/** The numbers that came to one address: a sender's name is their upper 24 bits, the others rise by each send. */
final class Sequences {
  private static final int NUMBER_BITS = 40;
  private final Map<Long, Long> last = new HashMap<>();
  private long count;
  private long disorders;

  static long first(long sender) {
    return sender << NUMBER_BITS;
  }

  synchronized void note(Message<Object> message) {
    long value = ((Number) message.body()).longValue();
    Long before = last.put(value >> NUMBER_BITS, value);
    count++;
    if (before != null && before >= value) disorders++;
  }

  synchronized JsonObject figures() {
    return new JsonObject().put("count", count).put("disorders", disorders);
  }
}
