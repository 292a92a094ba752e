"""As much of HTTP/2 as a hostile client of gRPC needs: frames with requests, written by hand, over
TCP or TLS.
"""

import socket
import ssl
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
CANCEL = 8
INITIAL_WINDOW_SIZE = 4


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


def whole_call(method, stream, request=b""):
    return (frame(HEADERS, END_HEADERS, stream, headers(method)) +
            frame(DATA, END_STREAM, stream, message(request)))


def secured(certificate=None):
    """What connect() proves who it is with: a credential file; None: nothing. It believes any
    server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


def connect(host, port, timeout_s=10, context=None, source=None):
    """A connection that has said its preface and its settings; `source` is its own address."""
    connection = socket.create_connection((host, port), timeout=timeout_s,
                                          source_address=source and (source, 0))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if context is not None:
        connection = context.wrap_socket(connection)
    connection.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0))
    return connection


def _read(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the connection has ended")
        data += more
    return data


def answer(connection, stream):
    """The message that answers a call; None where it is refused."""
    data = b""
    while True:
        head = _read(connection, 9)
        kind, flags, of = struct.unpack(">BBI", head[3:])
        payload = _read(connection, int.from_bytes(head[:3], "big"))
        if of == stream and kind == DATA:
            data += payload
        if of == stream and (kind == RST_STREAM or flags & END_STREAM):
            return data[5:] if data else None


def send_slowly(connection, stream, data, timeout_s):
    """Bytes of a request, as fast as the server allows; how many it took in that time."""
    window = {0: 65535, stream: 65535}
    sent, deadline = 0, time.monotonic() + timeout_s
    while sent < len(data) and time.monotonic() < deadline:
        size = min(1 << 14, len(data) - sent, *window.values())
        if size > 0:
            connection.sendall(frame(DATA, 0, stream, data[sent:sent + size]))
            sent += size
            window = {of: left - size for of, left in window.items()}
            continue
        head = _read(connection, 9)
        kind, flags, of = struct.unpack(">BBI", head[3:])
        payload = _read(connection, int.from_bytes(head[:3], "big"))
        if kind == WINDOW_UPDATE and of in window:
            window[of] += struct.unpack(">I", payload)[0]
        elif kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                number, value = struct.unpack(">HI", payload[at:at + 6])
                if number == INITIAL_WINDOW_SIZE:
                    window[stream] += value - 65535
        elif kind == RST_STREAM or flags & END_STREAM and of == stream:
            break
    return sent
