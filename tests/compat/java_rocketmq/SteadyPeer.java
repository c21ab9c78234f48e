import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * Senders with the settings that the client comes with: one line for each send, "THREAD NUMBER STATUS MILLISECONDS QUEUE".
 *
 * SteadyPeer ADDRESS TOPIC THREADS INTERVAL_MS sends "THREAD-NUMBER" by each thread, one after the other with that pause in
 * between, until its input ends.
 */
public final class SteadyPeer {
    static volatile boolean isStopping;

    public static void main(String[] words) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("steady");
        producer.setNamesrvAddr(words[0]);
        producer.start();
        Thread[] threads = new Thread[Integer.parseInt(words[2])];
        for (int thread = 0; thread < threads.length; thread++) {
            int number = thread;
            threads[thread] = new Thread(() -> send(producer, words[1], number, Long.parseLong(words[3])));
            threads[thread].start();
        }
        while (System.in.read() >= 0) {
            // Nobody writes there: it ends when the parent wants no more.
        }
        isStopping = true;
        for (Thread thread : threads) {
            thread.join();
        }
        System.exit(0); // the client leaves threads behind
    }

    static void send(DefaultMQProducer producer, String topic, int thread, long intervalMs) {
        for (int number = 0; !isStopping; number++) {
            String outcome;
            long begun = System.nanoTime();
            int queue = -1;
            try {
                Message message = new Message(topic, (thread + "-" + number).getBytes(StandardCharsets.UTF_8));
                SendResult result = producer.send(message);
                outcome = result.getSendStatus() == SendStatus.SEND_OK ? "ok" : result.getSendStatus().toString();
                queue = result.getMessageQueue().getQueueId();
            } catch (Exception error) {
                outcome = error.getClass().getSimpleName();
            }
            System.out.println(thread + " " + number + " " + outcome + " " + (System.nanoTime() - begun) / 1_000_000 + " " + queue);
            try {
                Thread.sleep(intervalMs);
            } catch (InterruptedException stopped) {
                return;
            }
        }
    }
}
