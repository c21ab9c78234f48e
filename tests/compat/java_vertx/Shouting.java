package driven;

import io.vertx.core.buffer.Buffer;
import io.vertx.core.eventbus.MessageCodec;

/** A codec of a user, for text. */
final class Shouting implements MessageCodec<String, String> {
  static final String NAME = "shouting";

  @Override
  public void encodeToWire(Buffer buffer, String text) {
    buffer.appendString(text.toUpperCase());
  }

  @Override
  public String decodeFromWire(int position, Buffer buffer) {
    return buffer.getString(position, buffer.length());
  }

  @Override
  public String transform(String text) {
    return text.toUpperCase();
  }

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public byte systemCodecID() {
    return -1;
  }
}
