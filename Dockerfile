# One image for the front door, the CPU worker and Flower; compose.yaml picks the command.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml requirements.lock README.md LICENSE NOTICE ./
# Of what requirements.lock pins, only what the service itself needs: no test tools in the image.
RUN python -m venv /opt/voxqueue \
    && pip install --no-cache-dir "$(grep -oE '^uv==[0-9.]+' requirements.lock)" hatchling==1.33.0 \
    && uv pip compile pyproject.toml --constraint requirements.lock --generate-hashes --quiet -o /tmp/runtime.lock \
    && uv pip install --python /opt/voxqueue/bin/python --require-hashes --no-cache -r /tmp/runtime.lock
COPY app app
COPY tasks tasks
COPY models models
COPY migrations migrations
RUN uv pip install --python /opt/voxqueue/bin/python --no-deps --no-build-isolation --no-cache .

FROM python:3.11-slim-bookworm
# OpenBLAS for machines that have no MKL (aarch64): MLX's own BLAS is 60 times slower.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libopenblas0-pthread \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --no-create-home voxqueue \
    && install -d -o voxqueue /data /models
COPY --from=build /opt/voxqueue /opt/voxqueue
ENV PATH=/opt/voxqueue/bin:$PATH \
    VOXQUEUE_DATA_DIR=/data \
    VOXQUEUE_MODELS_DIR=/models \
    PYTHONUNBUFFERED=1
USER voxqueue
VOLUME ["/data", "/models"]
EXPOSE 8000
ENTRYPOINT ["voxqueue"]
CMD ["serve"]
