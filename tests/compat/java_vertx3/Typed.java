package driven;

import io.vertx.core.buffer.Buffer;
import io.vertx.core.eventbus.ReplyException;
import io.vertx.core.eventbus.ReplyFailure;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;

/** Bodies of every type that Vert.x has a codec for, from [codec, value]. */
final class Typed {
  private Typed() {}

  static Object body(JsonArray of) {
    switch (of.getString(0)) {
      case "null": return null;
      case "byte": return of.getInteger(1).byteValue();
      case "boolean": return of.getBoolean(1);
      case "short": return of.getInteger(1).shortValue();
      case "int": return of.getInteger(1);
      case "long": return of.getLong(1);
      case "float": return of.getFloat(1);
      case "double": return of.getDouble(1);
      case "string": return of.getString(1);
      case "char": return of.getString(1).charAt(0);
      case "buffer": return Buffer.buffer(of.getString(1));
      case "bytearray": return of.getString(1).getBytes();
      case "jsonobject": return of.getJsonObject(1);
      case "jsonarray": return of.getJsonArray(1);
      case "replyexception": return new ReplyException(ReplyFailure.RECIPIENT_FAILURE, 7, of.getString(1));
      default: throw new IllegalArgumentException(of.encode());
    }
  }
}
