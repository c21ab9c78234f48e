package driven;

import io.vertx.core.AsyncResult;
import io.vertx.core.MultiMap;
import io.vertx.core.eventbus.Message;
import io.vertx.core.eventbus.ReplyException;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import io.vertx.serviceproxy.ServiceException;

/** One JSON object on each line of the standard output. */
final class Answers {
  private Answers() {}

  static synchronized void print(JsonObject answer) {
    System.out.println(answer.encode());
    System.out.flush();
  }

  static void outcome(AsyncResult<?> outcome) {
    JsonObject answer = new JsonObject().put("ok", outcome.succeeded());
    if (outcome.failed()) {
      print(failure(answer, outcome.cause()));
      return;
    }
    Object result = outcome.result();
    if (result instanceof Message<?> message) {
      result = message.body();
      if (!message.headers().isEmpty()) answer.put("headers", headers(message.headers()));
    }
    print(answer.put("body", result));
  }

  static JsonObject failure(JsonObject answer, Throwable cause) {
    answer.put("ok", false).put("message", String.valueOf(cause.getMessage())).put("class", cause.getClass().getName());
    if (cause instanceof ReplyException reply) {
      answer.put("message", reply.getMessage()).put("failureType", reply.failureType().name()).put("failureCode", reply.failureCode());
    }
    if (cause instanceof ServiceException service) answer.put("debugInfo", service.getDebugInfo());
    return answer;
  }

  /** Every name with its value, or with all of them where there are several. */
  static JsonObject headers(MultiMap headers) {
    JsonObject found = new JsonObject();
    for (String name : headers.names()) {
      var values = headers.getAll(name);
      found.put(name, values.size() == 1 ? values.get(0) : new JsonArray(values));
    }
    return found;
  }
}
