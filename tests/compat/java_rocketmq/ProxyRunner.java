/** RocketMQ's proxy, with the words of its own script. */
public class ProxyRunner {
    public static void main(String[] words) {
        org.apache.rocketmq.proxy.ProxyStartup.main(words);
    }
}
