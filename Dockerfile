# An image with only the program and its libraries: no shell, no package manager, an unprivileged
# user, a root that may be read-only. docs/packages.md says how to run it.
#   docker build -t hooklatch --build-arg VERSION=0.1.0 --build-arg REVISION="$(git rev-parse HEAD)" .
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates gcc libc6-dev make python3 \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --profile dist --locked --features full --bin hooklatch && cp target/dist/hooklatch /hooklatch \
    && packaging/image/rootfs /hooklatch /rootfs \
    && scripts/sbom /rootfs/usr/share/doc/hooklatch/sbom.cdx.json

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="hooklatch" \
      org.opencontainers.image.description="A webhook receiver that a team can trust with money" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /rootfs /
USER 10001:10001
WORKDIR /data
VOLUME /data
# In a container loopback is unreachable from outside; publish 8080 only, and keep 8081 inside your network: /metrics needs no token.
# Add its host names, such as the service's, to HOOKLATCH__ADMIN__HOSTS; addresses and probes need no entry.
# { credential = "NAME" } is the file NAME among the secrets of Docker. The default of database.url is a file in /data.
ENV HOOKLATCH__SERVER__LISTEN=0.0.0.0:8080 \
    HOOKLATCH__ADMIN__LISTEN=0.0.0.0:8081 \
    CREDENTIALS_DIRECTORY=/run/secrets \
    PATH=/usr/local/bin
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=60s \
    CMD ["hooklatch", "health", "--config", "/etc/hooklatch/hooklatch.toml"]
ENTRYPOINT ["hooklatch"]
CMD ["serve", "--config", "/etc/hooklatch/hooklatch.toml"]
