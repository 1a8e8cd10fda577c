# The operator's image: the runtime (target `base`) and the Ansible content of this repository. No Galaxy server is needed: the
# collections come out of the hashed `ansible` distribution. The paths, the user and the entry point are those of the
# field's operator images, so that their manifests fit.
ARG PYTHON_IMAGE=docker.io/library/python:3.12-slim

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
RUN python -m venv /opt/operator && python -m venv /opt/build
COPY requirements/runtime.txt requirements/build.txt requirements/collections.txt requirements/
RUN /opt/operator/bin/pip install --require-hashes --requirement requirements/runtime.txt \
    && /opt/build/bin/pip install --require-hashes --requirement requirements/build.txt
COPY tools/__init__.py tools/install_collections.py tools/
COPY plugins plugins
RUN /opt/operator/bin/python -m tools.install_collections --copy-to /usr/share/ansible/collections
COPY pyproject.toml README.md LICENSE ./
COPY runner runner
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --no-index --wheel-dir /wheels . \
    && /opt/operator/bin/pip install --no-deps --no-index /wheels/*.whl

# The base of any operator: an operator-sdk project's own Dockerfile builds on it, see docs/moving-from-operator-sdk.md.
#   docker build --target base -t ansible-operator:latest .
FROM ${PYTHON_IMAGE} AS base
# What `ansible-operator version` and the log tell: docker build --build-arg ANSIBLE_OPERATOR_COMMIT=$(git rev-parse HEAD)
ARG ANSIBLE_OPERATOR_COMMIT=unknown
ENV HOME=/opt/ansible \
    ANSIBLE_OPERATOR_COMMIT=${ANSIBLE_OPERATOR_COMMIT} \
    PATH=/opt/operator/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1
# Entry points in the field begin with /tini.
RUN apt-get update && apt-get install -y --no-install-recommends tini && rm -rf /var/lib/apt/lists/* \
    && ln -s "$(command -v tini)" /tini
COPY --from=build /opt/operator /opt/operator
# Where both ansible-core and the watches file look when ANSIBLE_COLLECTIONS_PATH is not set, after ~/.ansible/collections,
# where a derived image's `ansible-galaxy collection install` writes.
COPY --from=build /usr/share/ansible/collections /usr/share/ansible/collections
RUN mkdir -p /etc/ansible /opt/ansible/.ansible/tmp /tmp/ansible-operator \
    && printf '[defaults]\nroles_path = /opt/ansible/roles\nlibrary = /usr/share/ansible/openshift\n' > /etc/ansible/ansible.cfg \
    && printf 'localhost ansible_connection=local\n' > /etc/ansible/hosts \
    && ln -s /opt/operator/bin/ansible-operator /usr/local/bin/ansible-operator \
    && chown -R 1001:0 /opt/ansible /tmp/ansible-operator \
    && chmod -R ug+rwX /opt/ansible /tmp/ansible-operator
WORKDIR /opt/ansible
USER 1001
# The runtime may be process 1: it passes SIGTERM on to its plays and reaps them.
ENTRYPOINT ["/usr/local/bin/ansible-operator", "run", "--watches-file=./watches.yaml"]

FROM base
COPY --chown=1001:0 watches.yaml ./watches.yaml
COPY --chown=1001:0 roles ./roles
COPY --chown=1001:0 handlers ./handlers
COPY --chown=1001:0 playbooks ./playbooks
COPY --chown=1001:0 crds ./crds
