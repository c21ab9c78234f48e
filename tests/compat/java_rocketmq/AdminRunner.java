import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs commands of mqadmin one after the other in one Java process, since each process needs seconds to warm up.
 *
 * One command a line on standard input: its words in base64, with tabs between. One answer a line on standard output:
 * what the command printed, on its standard output and its standard error together, in base64.
 */
public final class AdminRunner {
    private static final class Commands extends MQAdminStartup {
        /** Forget the commands that ran: one is not made to run twice. */
        static void forget() {
            SUB_COMMANDS.clear();
        }
    }

    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split("\t", -1);
            for (int index = 0; index < words.length; index++) {
                words[index] = new String(Base64.getDecoder().decode(words[index]), StandardCharsets.UTF_8);
            }
            ByteArrayOutputStream told = new ByteArrayOutputStream();
            PrintStream both = new PrintStream(told, true, StandardCharsets.UTF_8);
            System.setOut(both);
            System.setErr(both);
            Commands.forget();
            MQAdminStartup.main0(words, null);
            both.flush();
            answers.println(Base64.getEncoder().encodeToString(told.toByteArray()));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
