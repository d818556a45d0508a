# One image for the front door, the CPU worker and Flower; compose.yaml picks the command.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml requirements.lock README.md LICENSE NOTICE ./
RUN python -m venv /opt/voxqueue \
    && /opt/voxqueue/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY app app
COPY tasks tasks
COPY models models
COPY migrations migrations
# Such as otel, which is not locked: docker compose build --build-arg EXTRAS=otel
ARG EXTRAS=
RUN /opt/voxqueue/bin/pip install --no-cache-dir --no-build-isolation ".${EXTRAS:+[$EXTRAS]}"

FROM python:3.11-slim-bookworm
# The OpenMP of oneDNN, and OpenBLAS for machines that have no MKL (aarch64): MLX's own BLAS is 60 times slower.
# Not pinned, since Debian keeps the newest version only:
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgomp1 libopenblas0-pthread \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --no-create-home voxqueue \
    && install -d -o voxqueue /data /models
COPY --from=build /opt/voxqueue /opt/voxqueue
ENV PATH=/opt/voxqueue/bin:$PATH \
    VOXQUEUE_DATA_DIR=/data \
    VOXQUEUE_MODELS_DIR=/models \
    PYTHONUNBUFFERED=1
USER 10001
VOLUME ["/data", "/models"]
EXPOSE 8000
ENTRYPOINT ["voxqueue"]
CMD ["serve"]
