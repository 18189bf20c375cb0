"""A real Kubernetes on one Linux host, for this project's own tests: `python -m testcluster --help`.

Every program runs as a plain process of the host, built from Go modules: no container engine and no image
registry is needed. Nothing here knows what the tests run in the cluster.
"""
