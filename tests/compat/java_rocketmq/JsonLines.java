import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;

/** The output of the peers: one JSON object per line, from any thread. */
final class JsonLines {
    /** Print names, each followed by its value: null, a number, a boolean, a map, or anything by its text. */
    static void tell(Object... namesAndValues) {
        Map<String, Object> fields = new LinkedHashMap<>();
        for (int at = 0; at < namesAndValues.length; at += 2) {
            fields.put((String) namesAndValues[at], namesAndValues[at + 1]);
        }
        String line = object(fields);
        synchronized (JsonLines.class) {
            System.out.println(line);
        }
    }

    private static String object(Map<String, Object> fields) {
        StringBuilder text = new StringBuilder("{");
        fields.forEach((name, value) -> text.append(text.length() > 1 ? "," : "").append(quoted(name)).append(":").append(json(value)));
        return text.append("}").toString();
    }

    @SuppressWarnings("unchecked")
    private static String json(Object value) {
        if (value instanceof Map) {
            return object(new TreeMap<>((Map<String, Object>) value));
        }
        return value == null || value instanceof Number || value instanceof Boolean ? String.valueOf(value) : quoted(value.toString());
    }

    private static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\u0001", "\\u0001").replace("\u0002", "\\u0002") + "\"";
    }
}
