# RabbitMQ with the delayed message exchange plugin, whose release file is the build context.
# `docker/services.sh up delayed` builds it; see README.md here.
ARG BASE=rabbitmq:4.0-management
FROM ${BASE}
COPY *.ez /tmp/plugin/
# Where the broker's own plugins are depends on the image.
RUN chmod 644 /tmp/plugin/*.ez \
 && mv /tmp/plugin/*.ez "$(dirname "$(readlink -f "$(command -v rabbitmq-server)")")/../plugins/" \
 && rmdir /tmp/plugin
