# RabbitMQ with the delayed message exchange plugin; see README.md here. 4.2 is the last series that
# can run it. The plugin's version has to be of the broker's series.
ARG RABBITMQ=4.2
FROM rabbitmq:${RABBITMQ}-management
ARG PLUGIN=4.2.0
ADD https://github.com/rabbitmq/rabbitmq-delayed-message-exchange/releases/download/v${PLUGIN}/rabbitmq_delayed_message_exchange-${PLUGIN}.ez /opt/rabbitmq/plugins/
# ADD leaves the file readable by root only.
RUN chmod 644 /opt/rabbitmq/plugins/rabbitmq_delayed_message_exchange-${PLUGIN}.ez
