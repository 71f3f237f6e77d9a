import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import java.util.Scanner;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * An order service: a due notice for each line of standard input, {@code <order id> <due at> <delay>}, after the order's commit.
 *
 * <pre>echo 4711 2026-11-20T10:30:00Z 30m | java -cp amqp-client.jar:slf4j-api.jar OrderService.java amqp://… unpaid</pre>
 *
 * <p>The delay is a level; with a third argument, {@code ladder}, any number of milliseconds.
 */
public class OrderService {
    /** The places of `overdue export --format ladder`, smallest unit first, and how many digits each has. */
    static final String[] PLACES = {"1s", "10s", "1m", "10m", "1h", "1d", "30d"};
    static final int[] DIGITS = {10, 6, 10, 6, 24, 30, 2};
    static final long RESOLUTION_MS = 1_000, MAX_MS = 2_592_000_000L;

    /** Exchange and routing key on the ladder, rounded down: the worker waits for the rest. */
    static String[] enter(long delayMs, String timeout) {
        if (delayMs < 0 || delayMs > MAX_MS) throw new IllegalArgumentException("no delay of " + delayMs + " ms");
        long rest = delayMs / RESOLUTION_MS;
        int place = 0;
        String key = rest % DIGITS[0] + ".";
        while ((rest /= DIGITS[place]) > 0) key += rest % DIGITS[++place] + ".";
        return new String[] {"orders.ladder." + PLACES[place], key + timeout};
    }

    static void publish(Channel channel, AtomicBoolean returned, String[] way, String id, String dueAt) throws Exception {
        BasicProperties properties = new BasicProperties.Builder()
                .deliveryMode(2) // persistent
                .contentType("text/plain") // the bare order id; or JSON, {"order_id": "…", "due_at": "…"}
                .messageId(id + "@" + dueAt) // the same when it is published again
                .build();
        channel.basicPublish(way[0], way[1], true, properties, id.getBytes("UTF-8"));
        if (!channel.waitForConfirms(30_000)) throw new Exception(id + ": nacked, publish it again later");
        // The broker returns a message before it confirms it.
        if (returned.get()) throw new Exception(id + ": returned, no queue takes " + way[1] + " at " + way[0]);
        System.out.println(id + ": confirmed");
    }

    public static void main(String[] args) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(args[0]);
        try (Connection connection = factory.newConnection(); Channel channel = connection.createChannel()) {
            AtomicBoolean returned = new AtomicBoolean();
            channel.addReturnListener((code, text, exchange, key, properties, body) -> returned.set(true));
            channel.confirmSelect();
            for (Scanner in = new Scanner(System.in); in.hasNext(); ) {
                String id = in.next(), dueAt = in.next(), delay = in.next();
                boolean ladder = args.length > 2;
                String[] way = ladder ? enter(Long.parseLong(delay), args[1]) : new String[] {"orders.in", delay + "." + args[1]};
                publish(channel, returned, way, id, dueAt);
            }
        }
    }
}
