# An image that serves the map mounted at /map:
#   docker build --tag mappable .
#   docker run --publish 127.0.0.1:8000:8000 --volume ./map:/map:ro --env MAPPABLE_TOKEN mappable
# The image was not built yet. Its steps ran in a fresh Debian root (scripts/container).
FROM debian:bookworm-slim
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PATH=/opt/mappable/bin:/usr/sbin:/usr/bin:/sbin:/bin
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 MAPPABLE_CACHE=/tmp/mappable MPLCONFIGDIR=/tmp/matplotlib
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates python3-venv \
 && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/mappable
COPY locks/core.lock locks/constraints.txt /src/locks/
RUN pip install --no-deps --require-hashes --requirement /src/locks/core.lock
RUN pip install --no-deps --index-url "$TORCH_INDEX" --constraint /src/locks/constraints.txt torch
COPY pyproject.toml README.md LICENSE /src/
COPY packaging/hatch_build.py packaging/vendor /src/packaging/
COPY src /src/src
RUN pip install --no-deps --no-build-isolation /src
USER 1000
EXPOSE 8000
CMD ["mappable", "serve", "/map", "--host", "0.0.0.0"]
