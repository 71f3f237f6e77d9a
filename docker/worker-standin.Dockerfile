# The worker on the stand-ins' base, with the binary that the host built. The base is at least as
# new as the host, so the binary finds its C library.
ARG BASE
FROM ${BASE}
RUN useradd --system --uid 10001 overdue
COPY overdue /usr/local/bin/overdue
USER overdue
ENTRYPOINT ["overdue"]
