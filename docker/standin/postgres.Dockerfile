# Stands in for the official PostgreSQL image where no image can be pulled: the distribution's
# package behind the same paths, variables and behaviour. forky has PostgreSQL 18, trixie 17.
ARG BASE
FROM ${BASE}

# The official image's numeric ids, so that either image can take over the other's volume. The
# common package goes first: its setting keeps the server's package from making a cluster.
RUN groupadd --system --gid 999 postgres \
 && useradd --system --uid 999 --gid postgres --home-dir /var/lib/postgresql postgres \
 && apt-get update \
 && apt-get install --yes --no-install-recommends postgresql-common \
 && echo 'create_main_cluster = false' >> /etc/postgresql-common/createcluster.conf \
 && apt-get install --yes --no-install-recommends postgresql \
 && ln -s /usr/lib/postgresql/*/bin /usr/local/postgresql \
 && rm -rf /var/lib/apt/lists/* /var/lib/postgresql/*

ENV PATH=/usr/local/postgresql:$PATH LANG=C.UTF-8
COPY postgres-entrypoint.sh /usr/local/bin/entrypoint
VOLUME /var/lib/postgresql
EXPOSE 5432
# Fast shutdown; at SIGTERM the server would wait for its clients to leave.
STOPSIGNAL SIGINT
ENTRYPOINT ["entrypoint"]
CMD ["postgres"]
