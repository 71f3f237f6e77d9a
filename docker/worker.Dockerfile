# The worker as it would be shipped. Where images cannot be pulled: worker-standin.Dockerfile.
FROM rust:1-trixie AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked

FROM debian:trixie-slim
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 overdue
COPY --from=build /src/target/release/overdue /usr/local/bin/overdue
USER overdue
HEALTHCHECK --interval=20s --timeout=5s --start-period=30s CMD ["overdue", "health"]
ENTRYPOINT ["overdue"]
CMD ["run"]
