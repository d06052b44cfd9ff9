# The service as an image: slim, not root, nothing in it that builds. Settings: docs/operations.md.
FROM python:3.11-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
COPY requirements.txt ./
RUN pip install --require-hashes --requirement requirements.txt \
 && python -m venv --without-pip /opt/traincost \
 && pip --python /opt/traincost/bin/python install --require-hashes --requirement requirements.txt \
 && pip --python /opt/traincost/bin/python uninstall --yes hatchling packaging pathspec pluggy tomlkit trove-classifiers
COPY pyproject.toml README.md LICENSE ./
COPY service ./service
COPY migrations ./migrations
RUN pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
 && pip --python /opt/traincost/bin/python install --no-deps dist/*.whl

FROM python:3.11-slim-bookworm
RUN groupadd --gid 10001 traincost \
 && useradd --uid 10001 --gid traincost --no-create-home --shell /usr/sbin/nologin traincost \
 && install --directory --owner traincost --group traincost /data
COPY --from=build /opt/traincost /opt/traincost
ENV PATH=/opt/traincost/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001:10001
# Where an SQLite file goes, unless TRAINCOST_DATABASE_URL says otherwise.
WORKDIR /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
  CMD ["python", "-c", "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', int(os.getenv('TRAINCOST_PORT', '8000')), timeout=4); c.request('GET', '/health/ready'); sys.exit(c.getresponse().status != 200)"]
CMD ["traincost", "serve"]
