"""As much of HTTP/2 as a hostile client of gRPC needs: frames with requests, written by hand."""

import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
CANCEL = 8


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def headers(method):
    """Of a call of gRPC, as literals that no table keeps."""
    block = b""
    for name, value in ((":method", "POST"), (":scheme", "http"), (":path", method),
                        (":authority", "a"), ("te", "trailers"),
                        ("content-type", "application/grpc")):
        block += bytes([0, len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
    return block


def message(request=b""):
    return struct.pack(">BI", 0, len(request)) + request


def reset_call(method, stream, request=b""):
    """A whole request, and its end before an answer."""
    return (frame(HEADERS, END_HEADERS, stream, headers(method)) +
            frame(DATA, END_STREAM, stream, message(request)) +
            frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL)))


def open_call(method, stream):
    """A request whose message never comes."""
    return frame(HEADERS, END_HEADERS, stream, headers(method))


def connect(host, port, timeout_s=10):
    """A connection that has said its preface and its settings."""
    connection = socket.create_connection((host, port), timeout=timeout_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0))
    return connection
