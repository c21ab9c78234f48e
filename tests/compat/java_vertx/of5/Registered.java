package driven;

import io.vertx.core.Future;
import io.vertx.core.eventbus.MessageConsumer;

/** When a consumer is registered in the whole cluster, as Vert.x 5 tells it. */
final class Registered {
  private Registered() {}

  static Future<Void> in(MessageConsumer<?> consumer) {
    return consumer.completion();
  }
}
