import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.MessageProperties;
import java.util.ArrayList;
import java.util.List;

/**
 * An order service that has its orders looked up after any delay.
 *
 * <p>The places are those of `overdue export --format ladder`, smallest unit first.
 *
 * <pre>java -cp amqp-client.jar:slf4j-api.jar PublishLater.java amqp://user:password@localhost:5672/%2f 2220000 unpaid 4711</pre>
 */
public class PublishLater {
    record Place(String exchange, long unitMs) {}

    static final List<Place> PLACES = List.of(
            new Place("orders.ladder.1s", 1_000),
            new Place("orders.ladder.10s", 10_000),
            new Place("orders.ladder.1m", 60_000),
            new Place("orders.ladder.10m", 600_000),
            new Place("orders.ladder.1h", 3_600_000),
            new Place("orders.ladder.1d", 86_400_000),
            new Place("orders.ladder.30d", 2_592_000_000L));
    static final long MAX_MS = 2_592_000_000L;

    /** Exchange and routing key, rounded down: a worker of `overdue` waits for the rest itself. */
    static String[] enter(long delayMs, String word) {
        if (delayMs < 0 || delayMs > MAX_MS) throw new IllegalArgumentException("no delay of " + delayMs + " ms");
        int place = PLACES.size() - 1;
        while (place > 0 && delayMs < PLACES.get(place).unitMs()) place--;
        String exchange = PLACES.get(place).exchange();
        List<String> digits = new ArrayList<>(List.of(word));
        for (; place >= 0; place--) {
            digits.add(0, Long.toString(delayMs / PLACES.get(place).unitMs()));
            delayMs %= PLACES.get(place).unitMs();
        }
        return new String[] {exchange, String.join(".", digits)};
    }

    public static void main(String[] args) throws Exception {
        String[] path = enter(Long.parseLong(args[1]), args[2]);
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(args[0]);
        try (Connection connection = factory.newConnection(); Channel channel = connection.createChannel()) {
            channel.confirmSelect();
            for (String id : List.of(args).subList(3, args.length)) {
                channel.basicPublish(path[0], path[1], true, MessageProperties.MINIMAL_PERSISTENT_BASIC, id.getBytes("UTF-8"));
            }
            channel.waitForConfirmsOrDie(30_000);
        }
        System.out.println((args.length - 3) + " confirmed: " + path[0] + " " + path[1]);
    }
}
