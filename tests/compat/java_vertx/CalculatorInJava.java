package driven;

import io.vertx.core.Future;
import io.vertx.core.json.JsonObject;
import io.vertx.serviceproxy.ServiceException;

public final class CalculatorInJava implements Calculator {
  @Override
  public Future<Integer> add(int a, int b) {
    return Future.succeededFuture(a + b);
  }

  @Override
  public Future<JsonObject> describe(JsonObject subject) {
    return Future.succeededFuture(new JsonObject().put("size", subject.size()).put("subject", subject));
  }

  @Override
  public Future<String> refuse(int code, String message) {
    return Future.failedFuture(new ServiceException(code, message, new JsonObject().put("asked", code)));
  }
}
