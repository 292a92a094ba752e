"""Asks the ports of a cluster as somebody without a credential can: without TLS, in HTTP/1 and
HTTP/2, and with TLS and no certificate.

    python3 stranger.py HOST:PORT ...      prints a line for each port and way, with what it heard

ask() calls that as another user or on another machine.
"""

import socket
import ssl
import subprocess
import sys

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# HTTP/2's settings, none, as the first frame of a client.
_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_WAYS = (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", _PREFACE + _SETTINGS)
_DEADLINE_S = 60


def ask(prefix, ports):
    """What the ports have said to a stranger whose commands begin with `prefix`; "": nothing."""
    asked = subprocess.run([*prefix, "/usr/bin/python3", "-c", _source(), *ports],
                           capture_output=True, text=True, timeout=_DEADLINE_S, check=False)
    lines = asked.stdout.splitlines()
    if len(lines) != len(ports) * (len(_WAYS) + 1):
        return f"not all were asked: {asked.stdout}{asked.stderr}"
    return "".join(line + "\n" for line in lines if not line.endswith(" b''"))


def _source():
    """Of this file, which another user may not be able to read."""
    with open(__file__, encoding="utf-8") as file:
        return file.read()


def _plain(host, port, words):
    with socket.create_connection((host, port), timeout=5) as plain:
        plain.sendall(words)
        try:
            return plain.recv(100)
        except ConnectionError:
            return b""


def _secured(host, port):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with socket.create_connection((host, port), timeout=5) as raw:
            with context.wrap_socket(raw, server_hostname=host) as secured:
                secured.sendall(_WAYS[1])
                # A server that talks begins with its settings.
                return secured.recv(100)
    except (ssl.SSLError, ConnectionError):
        return b""


def main(ports):
    for each in ports:
        host, port = each.rsplit(":", 1)
        for words in _WAYS:
            print("plain", each, _plain(host, int(port), words))
        print("tls", each, _secured(host, int(port)))


if __name__ == "__main__":
    main(sys.argv[1:])
