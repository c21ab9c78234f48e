import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.remoting.InvokeCallback;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.netty.NettyRemotingServer;
import org.apache.rocketmq.remoting.netty.NettyRequestProcessor;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.netty.ResponseFuture;
import org.apache.rocketmq.remoting.netty.TlsSystemConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.SerializeType;
import io.netty.channel.ChannelHandlerContext;

/**
 * RocketMQ's own remoting, as a client that asks everything it can and prints one line for each thing it saw, or as a server until its
 * standard input ends. RemotingPeer client ADDRESS JSON|ROCKETMQ [tls]; RemotingPeer server JSON|ROCKETMQ prints "ready PORT".
 */
public final class RemotingPeer {
    static final int ECHO = 10, NEVER = 11, ASK_BACK = 12, NOTED = 13, NOTED_COUNT = 14;

    static RemotingCommand request(int code, String body, SerializeType type) {
        RemotingCommand command = RemotingCommand.createRequestCommand(code, null);
        command.addExtField("say", "grüß dich");
        command.setSerializeTypeCurrentRPC(type);
        command.setBody(body.getBytes(StandardCharsets.UTF_8));
        return command;
    }

    static RemotingCommand answer(RemotingCommand asked) {
        RemotingCommand command = RemotingCommand.createResponseCommand(0, "heard " + asked.getExtFields().get("say"));
        command.addExtField("form", asked.getSerializeTypeCurrentRPC().name());
        command.setBody(asked.getBody());
        return command;
    }

    static String told(RemotingCommand answer) {
        String body = answer.getBody() == null ? "" : new String(answer.getBody(), StandardCharsets.UTF_8);
        return answer.getCode() + "|" + answer.getRemark() + "|" + answer.getSerializeTypeCurrentRPC() + "|" + answer.getExtFields() + "|" + body;
    }

    static final class Echo implements NettyRequestProcessor {
        final NettyRemotingServer server;
        final SerializeType type;
        final AtomicInteger noted = new AtomicInteger();

        Echo(NettyRemotingServer server, SerializeType type) {
            this.server = server;
            this.type = type;
        }

        @Override
        public RemotingCommand processRequest(ChannelHandlerContext context, RemotingCommand asked) throws Exception {
            if (asked.getCode() == NEVER) {
                return null;
            }
            if (asked.getCode() == NOTED) {
                noted.incrementAndGet();
                return null;
            }
            if (asked.getCode() == NOTED_COUNT) {
                asked.setBody(Integer.toString(noted.get()).getBytes(StandardCharsets.UTF_8));
            }
            if (asked.getCode() == ASK_BACK) {
                RemotingCommand back = server.invokeSync(context.channel(), request(ECHO, "and you", type), 3_000);
                asked.setBody((told(back)).getBytes(StandardCharsets.UTF_8));
            }
            return answer(asked);
        }

        @Override
        public boolean rejectRequest() {
            return false;
        }
    }

    static void client(String address, SerializeType type, boolean tls) throws Exception {
        NettyClientConfig config = new NettyClientConfig();
        config.setUseTLS(tls);
        // After a timeout the client closes its channel on another thread, and may send the next command to it meanwhile.
        config.setClientCloseSocketIfTimeout(false);
        NettyRemotingClient client = new NettyRemotingClient(config);
        ExecutorService workers = Executors.newFixedThreadPool(2);
        client.registerProcessor(ECHO, new Echo(null, type), workers);
        client.start();
        System.out.println("sync " + told(client.invokeSync(address, request(ECHO, "sync", type), 10_000)));
        CountDownLatch latch = new CountDownLatch(200);
        AtomicInteger right = new AtomicInteger();
        for (int number = 0; number < 200; number++) {
            String body = "async " + number;
            client.invokeAsync(address, request(ECHO, body, type), 10_000, new InvokeCallback() {
                @Override
                public void operationComplete(ResponseFuture future) {
                }

                @Override
                public void operationSucceed(RemotingCommand answer) {
                    if (body.equals(new String(answer.getBody(), StandardCharsets.UTF_8))) {
                        right.incrementAndGet();
                    }
                    latch.countDown();
                }

                @Override
                public void operationFail(Throwable error) {
                    latch.countDown();
                }
            });
        }
        latch.await(20, TimeUnit.SECONDS);
        System.out.println("async " + right.get());
        for (int number = 0; number < 5; number++) {
            client.invokeOneway(address, request(NOTED, "oneway", type), 3_000);
        }
        RemotingCommand noted = client.invokeSync(address, request(NOTED_COUNT, "", type), 10_000);
        while (!new String(noted.getBody(), StandardCharsets.UTF_8).equals("5")) { // what is oneway may be overtaken
            noted = client.invokeSync(address, request(NOTED_COUNT, "", type), 10_000);
        }
        System.out.println("noted " + told(noted));
        System.out.println("back " + told(client.invokeSync(address, request(ASK_BACK, "", type), 10_000)));
        System.out.println("unknown " + told(client.invokeSync(address, request(999, "", type), 10_000)));
        try {
            client.invokeSync(address, request(NEVER, "", type), 300);
            System.out.println("timeout none");
        } catch (Exception error) {
            System.out.println("timeout " + error.getClass().getSimpleName());
        }
        byte[] large = new byte[3_000_000];
        RemotingCommand command = request(ECHO, "", type);
        command.setBody(large);
        System.out.println("large " + client.invokeSync(address, command, 20_000).getBody().length);
        client.shutdown();
        workers.shutdown();
    }

    static void server(SerializeType type) throws Exception {
        NettyServerConfig config = new NettyServerConfig();
        config.setListenPort(0);
        config.setBindAddress("127.0.0.1");
        NettyRemotingServer server = new NettyRemotingServer(config);
        ExecutorService workers = Executors.newFixedThreadPool(4);
        Echo echo = new Echo(server, type);
        for (int code : new int[] {ECHO, NEVER, ASK_BACK, NOTED, NOTED_COUNT}) {
            server.registerProcessor(code, echo, workers);
        }
        server.start();
        System.out.println("ready " + server.localListenPort());
        while (System.in.read() >= 0) {
        }
        server.shutdown();
        workers.shutdown();
    }

    public static void main(String[] words) throws Exception {
        try {
            if (words[0].equals("client")) {
                client(words[1], SerializeType.valueOf(words[2]), words.length > 3);
            } else {
                server(SerializeType.valueOf(words[1]));
            }
        } catch (Throwable error) { // else the threads of Netty keep the process running
            error.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }
}
