import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;

/**
 * RocketMQ's own selectors. Each line of input has an expression in Base64, then names and values of properties in Base64;
 * each line of output has `true`, `false` (also for unknown), or `refused`.
 */
public final class SelectorPeer {
    public static void main(String[] words) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder answers = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ", -1);
            Map<String, Object> properties = new HashMap<>();
            for (int at = 1; at + 1 < parts.length; at += 2) {
                properties.put(text(parts[at]), text(parts[at + 1]));
            }
            answers.append(answer(text(parts[0]), properties)).append('\n');
        }
        System.out.print(answers);
    }

    static String text(String packed) {
        return new String(Base64.getDecoder().decode(packed), StandardCharsets.UTF_8);
    }

    static String answer(String expression, Map<String, Object> properties) {
        Expression compiled;
        try {
            compiled = FilterFactory.INSTANCE.get("SQL92").compile(expression);
        } catch (Exception error) {
            return "refused";
        }
        try {
            return String.valueOf(Boolean.TRUE.equals(compiled.evaluate(new EvaluationContext() {
                @Override
                public Object get(String name) {
                    return properties.get(name);
                }

                @Override
                public Map<String, Object> keyValues() {
                    return properties;
                }
            })));
        } catch (Throwable error) {
            return "false"; // as the broker: it logs the error, and the message is not taken
        }
    }
}
