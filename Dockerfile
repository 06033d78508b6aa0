# The service in a container; the same steps without Docker: deploy/build.sh.
#
#   docker build -t dirad .
#   docker run --rm -v dirad:/var/lib/dirad dirad dirad token create --name me --scope admin \
#       --store /var/lib/dirad/store
#   docker run -d -p 8000:8000 -v dirad:/var/lib/dirad dirad

FROM python:3.12-slim AS build
WORKDIR /source
RUN pip install --no-cache-dir build
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m build --wheel --outdir /dist

FROM python:3.12-slim
COPY --from=build /dist /dist
RUN pip install --no-cache-dir "$(ls /dist/dirad-*.whl)[postgres,parquet]" && rm -r /dist \
    && useradd --system --home-dir /var/lib/dirad --create-home dirad
COPY deploy/healthy.py /usr/local/lib/dirad/healthy.py
USER dirad
# Compiled kernels are kept with the data, so that a new container does not compile them again.
ENV NUMBA_CACHE_DIR=/var/lib/dirad/cache PYTHONUNBUFFERED=1
VOLUME /var/lib/dirad
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "/usr/local/lib/dirad/healthy.py", "http://127.0.0.1:8000"]
# Others can reach it, so that it needs a token before it starts.
CMD ["dirad", "serve", "--store", "/var/lib/dirad/store", "--host", "0.0.0.0", "--port", "8000"]
