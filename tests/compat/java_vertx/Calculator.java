package driven;

import io.vertx.codegen.annotations.ProxyGen;
import io.vertx.core.Future;
import io.vertx.core.json.JsonObject;

/** A service whose proxy and handler Vert.x's own processor generates. */
@ProxyGen
public interface Calculator {
  Future<Integer> add(int a, int b);

  Future<JsonObject> describe(JsonObject subject);

  /** Fails with a ServiceException of this code and message. */
  Future<String> refuse(int code, String message);
}
