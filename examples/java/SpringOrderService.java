import static java.nio.charset.StandardCharsets.UTF_8;

import java.time.Instant;
import java.util.concurrent.TimeUnit;
import org.springframework.amqp.AmqpException;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.MessageBuilder;
import org.springframework.amqp.core.MessageDeliveryMode;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.stereotype.Component;
import org.springframework.transaction.event.TransactionalEventListener;

/**
 * The same with Spring AMQP 4: the due notice of an order, after the commit of the transaction that made it.
 *
 * <pre>
 * spring.rabbitmq.publisher-confirm-type=correlated
 * spring.rabbitmq.publisher-returns=true
 * spring.rabbitmq.template.mandatory=true
 * </pre>
 */
@Component
public class SpringOrderService {
    /** What the transaction publishes with an {@code ApplicationEventPublisher}. */
    public record OrderMade(String id, Instant dueAt) {}

    private final RabbitTemplate template;

    public SpringOrderService(RabbitTemplate template) {
        this.template = template;
    }

    /** By a level. On a ladder, exchange and routing key are those of {@code enter} in OrderService.java. */
    @TransactionalEventListener // AFTER_COMMIT, unless it says something else
    public void made(OrderMade order) throws Exception {
        publish("orders.in", "30m.unpaid", order);
    }

    private void publish(String exchange, String key, OrderMade order) throws Exception {
        String messageId = order.id() + "@" + order.dueAt(); // the same when it is published again
        Message message = MessageBuilder.withBody(order.id().getBytes(UTF_8))
                .setContentType("text/plain")
                .setDeliveryMode(MessageDeliveryMode.PERSISTENT)
                .setMessageId(messageId)
                .build();
        CorrelationData sent = new CorrelationData(messageId);
        template.send(exchange, key, message, sent);
        CorrelationData.Confirm confirm = sent.getFuture().get(30, TimeUnit.SECONDS);
        if (!confirm.ack()) { // isAck() before version 4
            throw new AmqpException(order.id() + ": nacked, publish it again later");
        }
        if (sent.getReturned() != null) {
            throw new AmqpException(order.id() + ": returned, no queue takes " + key + " at " + exchange);
        }
    }
}
