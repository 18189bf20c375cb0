"""How the two sides of the wire are opened: mutual TLS, message bounds, keepalive and reconnect back-off."""

import grpc

from dartes.rpc.tls import SERVER_NAME, Credentials

MAX_MESSAGE_BYTES = 16 * 1024 * 1024  # a report of 65,536 problems with both scores is 0.6 MB

_COMMON_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # Its default of a minute would stand in for the keepalive's time-out.
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
)

CLIENT_OPTIONS: tuple[tuple[str, int | str], ...] = (
    *_COMMON_OPTIONS,
    # A coordinator comes back within seconds; the default back-off grows to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # In truth how long a connection may take to open: a TLS handshake between busy machines takes seconds.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # The leaf names the coordinator, whatever address it is reached at.
    ("grpc.ssl_target_name_override", SERVER_NAME),
    ("grpc.use_local_subchannel_pool", 1),
    # A proxy variable in the environment is for the hub, never for the coordinator.
    ("grpc.enable_http_proxy", 0),
)

SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    *_COMMON_OPTIONS,
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    # Two coordinators on one port must not share it in silence.
    ("grpc.so_reuseport", 0),
)


def open_channel(address: str, credentials: Credentials) -> grpc.Channel:
    """A synchronous client channel to `host:port` with this role's certificate."""
    return grpc.secure_channel(
        address,
        grpc.ssl_channel_credentials(
            root_certificates=credentials.authority,
            private_key=credentials.key,
            certificate_chain=credentials.certificate,
        ),
        options=CLIENT_OPTIONS,
    )


def server_credentials(credentials: Credentials) -> grpc.ServerCredentials:
    """The coordinator's side: callers must show a certificate of the run's authority."""
    return grpc.ssl_server_credentials(
        [(credentials.key, credentials.certificate)],
        root_certificates=credentials.authority,
        require_client_auth=True,
    )
