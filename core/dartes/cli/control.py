"""Asking a coordinator where its run stands, without ever failing for want of an answer."""

import grpc

from dartes.rpc.channel import open_channel
from dartes.rpc.tls import Credentials
from dartes.v1 import control_pb2, control_pb2_grpc

STATUS_SECONDS = 2.0


class ControlClient:
    """The control service of one coordinator address."""

    def __init__(self, address: str, credentials: Credentials) -> None:
        self._channel = open_channel(address, credentials)
        self._stub = control_pb2_grpc.ControlServiceStub(self._channel)

    def status(self) -> control_pb2.StatusResponse | None:
        """The status, or None where the coordinator does not answer now."""
        try:
            response: control_pb2.StatusResponse = self._stub.Status(
                control_pb2.StatusRequest(), timeout=STATUS_SECONDS
            )
        except grpc.RpcError:
            return None
        return response

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()
