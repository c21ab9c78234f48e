import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools one after the other in one Java process, since each process needs seconds to warm up.
 *
 * One command a line on standard input: milliseconds it may take, standard input, class, arguments; each field in base64, with tabs between.
 * One answer a line on standard output: exit status ("timeout" if it did not end), standard output, standard error, in the same form.
 */
public final class ToolRunner {
    /** Where a tool's output goes: the tool's first call of exit ends it, as the end of the process would. */
    static final class Capture extends OutputStream {
        ByteArrayOutputStream kept = new ByteArrayOutputStream();
        boolean closed;

        @Override
        public synchronized void write(int octet) {
            if (!closed) {
                kept.write(octet);
            }
        }

        @Override
        public synchronized void write(byte[] octets, int offset, int length) {
            if (!closed) {
                kept.write(octets, offset, length);
            }
        }

        synchronized void begin() {
            kept = new ByteArrayOutputStream();
            closed = false;
        }

        synchronized void open(boolean isOpen) {
            closed = !isOpen;
        }

        synchronized byte[] end() {
            closed = true;
            return kept.toByteArray();
        }
    }

    static final class Exited extends Error {
        Exited() {
            super("exit", null, false, false);
        }
    }

    static final Capture out = new Capture();
    static final Capture err = new Capture();
    static final List<Runnable> hooks = Collections.synchronizedList(new ArrayList<>());
    static volatile Integer status;

    static void exit(int given, String message) {
        if (status == null) {
            status = given;
            System.out.flush();
            System.err.flush();
            out.open(false);
            err.open(false);
        }
        throw new Exited();
    }

    static void call(String name, String[] arguments) {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException wrapped) {
            if (status == null && !(wrapped.getCause() instanceof Exited)) {
                wrapped.getCause().printStackTrace();
                status = 1;
            }
        } catch (ReflectiveOperationException missing) {
            missing.printStackTrace();
            status = 127;
        }
    }

    static String[] decoded(String line) {
        String[] fields = line.split("\t", -1);
        for (int index = 0; index < fields.length; index++) {
            fields[index] = new String(Base64.getDecoder().decode(fields[index]), StandardCharsets.UTF_8);
        }
        return fields;
    }

    static String encoded(byte[] octets) {
        return Base64.getEncoder().encodeToString(octets);
    }

    /** What a tool does when its process ends, such as to close its client. */
    static void atTheEnd() {
        out.open(true);
        err.open(true);
        for (Runnable hook : hooks) {
            try {
                hook.run();
            } catch (Exited again) {
                // a hook that asks for the end has it
            }
        }
    }

    static String run(String[] fields) throws InterruptedException {
        out.begin();
        err.begin();
        hooks.clear();
        status = null;
        System.setIn(new ByteArrayInputStream(fields[1].getBytes(StandardCharsets.UTF_8)));
        String[] arguments = Arrays.copyOfRange(fields, 3, fields.length);
        Thread tool = new Thread(() -> call(fields[2], arguments), "tool");
        tool.setDaemon(true);
        tool.start();
        tool.join(Long.parseLong(fields[0]));
        String end = status == null ? "0" : status.toString();
        if (tool.isAlive() && status == null) {
            end = "timeout";
            for (StackTraceElement element : tool.getStackTrace()) {
                System.err.println("    at " + element);
            }
            tool.interrupt();
        }
        if (!tool.isAlive()) {
            atTheEnd();
        }
        System.out.flush();
        System.err.flush();
        return encoded(end.getBytes(StandardCharsets.UTF_8)) + "\t" + encoded(out.end()) + "\t" + encoded(err.end());
    }

    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure(ToolRunner::exit);
        Exit.setHaltProcedure(ToolRunner::exit);
        Exit.setShutdownHookAdder((name, runnable) -> hooks.add(runnable));
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            answers.println(run(decoded(line)));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
