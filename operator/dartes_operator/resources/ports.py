"""The ports of a job's pods: gRPC with mutual TLS, and plain HTTP for probes and metrics."""

from typing import Final

GRPC_PORT: Final = 7443
HTTP_PORT: Final = 8080
