# A small image that runs as a user without rights. Build: docker build -t hooklatch .
# Run: docker run -p 8080:8080 -v hooklatch:/data -v ./hooklatch.toml:/etc/hooklatch/hooklatch.toml:ro hooklatch
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev make && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --bin hooklatch && cp target/release/hooklatch /hooklatch

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin hooklatch \
    && install -d -o hooklatch -g hooklatch /data /etc/hooklatch
COPY --from=build /hooklatch /usr/local/bin/hooklatch
USER 10001:10001
WORKDIR /data
VOLUME /data
# In a container loopback is nobody's; publish 8080 only, and keep 8081 inside your network: /metrics needs no token.
# Names that it is called by, such as the service's, go into HOOKLATCH__ADMIN__HOSTS; addresses and probes need nothing.
ENV HOOKLATCH__SERVER__LISTEN=0.0.0.0:8080 \
    HOOKLATCH__ADMIN__LISTEN=0.0.0.0:8081 \
    HOOKLATCH__DATABASE__URL=sqlite:///data/hooklatch.db
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["hooklatch", "health"]
ENTRYPOINT ["hooklatch"]
CMD ["serve", "--config", "/etc/hooklatch/hooklatch.toml"]
