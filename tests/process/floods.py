"""What hostile clients do to a port until they are told to stop, each kind in threads of its own:
hold connections open, or make them, calls and frames as fast as they can.
"""

import contextlib
import os
import selectors
import socket
import ssl
import struct
import threading
import time

from tests.tools import http2, messages

DATA_METHOD = "/monsoon.ParameterServer/Data"
# Of calls and frames, between two looks at whether to stop.
BURST = 50
# Between two looks at which connections have ended.
SWEEP_S = 0.2
# Hostile clients are on other machines, and take no processor from who is attacked.
NICE = 10
ADDRESS, SHUT_OUT = "127.0.0.66", "127.0.0.67"


class Flood:
    """`made` counts what it has done; a context manager."""

    def __init__(self, name, threads):
        self.name, self.address = name, ADDRESS
        self.made = 0
        self.stopped = threading.Event()
        self._threads = [threading.Thread(target=self._run_nicely, daemon=True)
                         for _ in range(threads)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *unused):
        self.stopped.set()
        for thread in self._threads:
            thread.join()

    def _run_nicely(self):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        self._run()

    def _run(self):
        raise NotImplementedError

    def connect(self, port, context):
        return http2.connect("127.0.0.1", port, timeout_s=5, context=context, source=self.address)


class Held(Flood):
    """`count` connections that `make` opens, which stay open; one that is cut is made anew."""

    def __init__(self, name, count, make):
        super().__init__(name, threads=1)
        self._count, self._make = count, make

    def _run(self):
        with contextlib.ExitStack() as ends, selectors.DefaultSelector() as selector:
            ends.callback(lambda: [key.fileobj.close() for key in list(
                (selector.get_map() or {}).values())])
            while not self.stopped.is_set():
                while len(selector.get_map()) < self._count and not self.stopped.is_set():
                    try:
                        connection = self._make(self)
                    except OSError:
                        break
                    connection.setblocking(False)
                    selector.register(connection, selectors.EVENT_READ)
                    self.made += 1
                for key, _ in selector.select(timeout=0):
                    if self._has_ended(key.fileobj):
                        selector.unregister(key.fileobj)
                        key.fileobj.close()
                self.stopped.wait(SWEEP_S)

    def _has_ended(self, connection):
        try:
            return not connection.recv(1 << 16)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True


class Deaf(Held):
    """The same, of which nothing is ever read."""

    def _has_ended(self, connection):
        return False


class Storm(Flood):
    """Does `once` all the time."""

    def __init__(self, name, once, threads=2):
        super().__init__(name, threads)
        self._once = once

    def _run(self):
        while not self.stopped.is_set():
            try:
                self._once(self)
            except OSError:
                time.sleep(0.001)


def _connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=5, source_address=(ADDRESS, 0))


def client_hello():
    """The first words of TLS."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = http2.secured().wrap_bio(incoming, outgoing)
    try:
        hello.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def silent(port, count):
    return Held("silent connections", count, lambda flood: _connect(port))


def half_handshakes(port, count):
    hello = client_hello()

    def make(_):
        connection = _connect(port)
        connection.sendall(hello)
        return connection

    return Held("half handshakes", count, make)


def garbage(port, count):
    def make(_):
        connection = _connect(port)
        connection.sendall(os.urandom(512))
        return connection

    return Held("garbage", count, make)


def hellos(port):
    """Each costs the server a signature, and its client nothing."""
    hello = client_hello()

    def once(flood):
        with _connect(port) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(hello)
            connection.recv(1)
        flood.made += 1

    return Storm("first words", once)


def handshakes(port, context, whose):
    """Whole ones, of somebody who is no member."""
    def once(flood):
        flood.made += 1
        with flood.connect(port, context) as connection:
            connection.recv(1)

    return Storm(f"handshakes {whose}", once)


def _drain(connection):
    with contextlib.suppress(OSError):
        while connection.recv(1 << 16):
            pass


def resets(port, context, method):
    """Calls that are taken back at once."""
    def once(flood):
        with flood.connect(port, context) as connection:
            drain = threading.Thread(target=_drain, args=(connection,), daemon=True)
            drain.start()
            for stream in range(1, 1 << 30, 2 * BURST):
                if flood.stopped.is_set():
                    return
                connection.sendall(b"".join(http2.reset_call(method, stream + 2 * i)
                                            for i in range(BURST)))
                flood.made += BURST

    storm = Storm("calls taken back", once)
    storm.address = SHUT_OUT  # for a while, since it does not even get as far as being a member
    return storm


def member_connections(port, context, count):
    """Each of which has made a call, as those of honest programs have."""
    def make(flood):
        connection = flood.connect(port, context)
        connection.sendall(http2.whole_call("/grpc.health.v1.Health/Check", 1))
        http2.answer(connection, 1)
        return connection

    return Held("connections of a member", count, make)


def idle_streams(port, context, count, streams=16):
    def make(flood):
        connection = flood.connect(port, context)
        connection.sendall(b"".join(http2.open_call(DATA_METHOD, 1 + 2 * i)
                                    for i in range(streams)))
        return connection

    return Held("idle data streams", count, make)


def frame(header, payload=b""):
    return b"MSN1" + struct.pack("<I", len(header)) + header + payload


def fetch(job, job_term, layout_hash, stripes):
    session = messages.field(1, job) + messages.field(4, job_term)
    request = (messages.field(1, session) + messages.fixed64(2, layout_hash) +
               messages.field(4, stripes) + messages.field(5, 1))
    return frame(messages.field(1, 1) + messages.field(4, request))


def _frames(connection, stream, requests):
    connection.sendall(http2.open_call(DATA_METHOD, stream) + b"".join(
        http2.frame(http2.DATA, 0, stream, http2.message(request)) for request in requests))


def slow_readers(port, context, count, request, streams=8):
    """Ask for all parameters, many times, and read nothing."""
    def make(flood):
        connection = flood.connect(port, context)
        for i in range(streams):
            _frames(connection, 1 + 2 * i, [request] * BURST)
        return connection

    return Deaf("slow readers", count, make)


def garbage_frames(port, context):
    def once(flood):
        with flood.connect(port, context) as connection:
            _frames(connection, 1, [os.urandom(200)] * BURST + [frame(os.urandom(99))] * BURST)
            connection.settimeout(1)
            connection.recv(1 << 16)
            flood.made += 2 * BURST

    return Storm("garbage frames", once)


def again(name, once):
    """`once` says whether it has been let do it."""
    def run_once(flood):
        if once():
            flood.made += 1

    return Storm(name, run_once)


def large_requests(port, context, method, count, size=3 << 20):
    """Each is nearly as large as a message may be, and its last byte never comes."""
    request = struct.pack(">BI", 0, size + 1) + bytes(size)

    def make(flood):
        connection = flood.connect(port, context)
        connection.sendall(http2.open_call(method, 1))
        http2.send_slowly(connection, 1, request, timeout_s=2)
        return connection

    return Held("large requests that never end", count, make)
