"""Channels, credentials and small encodings of the wire. It knows nothing of what the messages decide."""

PROTOCOL_VERSION = 2
