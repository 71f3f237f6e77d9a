# RabbitMQ with the delayed message exchange plugin, which is the folder `plugin` of the build context: its
# release file, or its source. `docker/services.sh up delayed` builds it; see README.md here.
ARG BASE=rabbitmq:4.0-management
FROM ${BASE} AS build
COPY plugin /plugin
COPY delayed-build.sh /
RUN bash /delayed-build.sh /plugin /built

FROM ${BASE}
COPY --from=build /built /built
# Where the broker's own plugins are: it depends on the image.
RUN cp -R /built/* "$(dirname "$(readlink -f "$(command -v rabbitmq-server)")")/../plugins/" && rm -rf /built
