# The operator's image: the runtime and the Ansible content of this repository. No Galaxy server is needed: the
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

FROM ${PYTHON_IMAGE}
# What `ansible-operator version` and the log tell: docker build --build-arg ANSIBLE_OPERATOR_COMMIT=$(git rev-parse HEAD)
ARG ANSIBLE_OPERATOR_COMMIT=unknown
ENV HOME=/opt/ansible \
    ANSIBLE_OPERATOR_COMMIT=${ANSIBLE_OPERATOR_COMMIT} \
    PATH=/opt/operator/bin:/usr/local/bin:/usr/bin:/bin \
    ANSIBLE_COLLECTIONS_PATH=/usr/share/ansible/collections \
    ANSIBLE_ROLES_PATH=/opt/ansible/roles \
    PYTHONDONTWRITEBYTECODE=1
COPY --from=build /opt/operator /opt/operator
COPY --from=build /usr/share/ansible/collections /usr/share/ansible/collections
RUN mkdir -p /opt/ansible/.ansible/tmp /tmp/ansible-operator \
    && ln -s /opt/operator/bin/ansible-operator /usr/local/bin/ansible-operator \
    && chown -R 1001:0 /opt/ansible /tmp/ansible-operator \
    && chmod -R ug+rwX /opt/ansible /tmp/ansible-operator
WORKDIR /opt/ansible
COPY --chown=1001:0 watches.yaml ./watches.yaml
COPY --chown=1001:0 roles ./roles
COPY --chown=1001:0 playbooks ./playbooks
COPY --chown=1001:0 crds ./crds
USER 1001
# The runtime is process 1: it passes SIGTERM on to its plays and reaps them.
ENTRYPOINT ["/usr/local/bin/ansible-operator", "run", "--watches-file=./watches.yaml"]
