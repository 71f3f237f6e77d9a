# Stands in for the official RabbitMQ image where no image can be pulled: the distribution's
# package behind the same paths, ports and behaviour. forky has RabbitMQ 4.3, trixie 4.0.
ARG BASE
FROM ${BASE}

# The official image's numeric ids, so that either image can take over the other's volume.
RUN groupadd --system --gid 999 rabbitmq \
 && useradd --system --uid 999 --gid rabbitmq --home-dir /var/lib/rabbitmq rabbitmq \
 && apt-get update \
 && apt-get install --yes --no-install-recommends rabbitmq-server \
 && rm -rf /var/lib/apt/lists/* /var/lib/rabbitmq/* /etc/rabbitmq/*

# The server's own scripts; the package's wrappers in /usr/sbin want to start as root.
ENV PATH=/usr/lib/rabbitmq/bin:$PATH RABBITMQ_LOGS=- LANG=C.UTF-8 HOME=/var/lib/rabbitmq
COPY rabbitmq-entrypoint.sh /usr/local/bin/entrypoint
VOLUME /var/lib/rabbitmq
EXPOSE 5672 15672 15692
ENTRYPOINT ["entrypoint"]
CMD ["rabbitmq-server"]
