"""Slow links between network namespaces of this machine.

    shaped_link.enter_own_network()            # the script goes on in a network of its own
    with shaped_link.ShapedLinks(4, mbit=100, delay_ms=50) as links:
        subprocess.run([*links.inside(0), "ping", "-c1", shaped_link.HUB])
        print(links.count(0))

The script's own namespace is the hub, with the address HUB; each link leads to a namespace
behind it. A link is two TUN devices and a process that carries packets between them: each way
they wait for those before them (bytes / rate), then `delay_ms`, and are lost where as many bytes
wait already as fit the link in a round trip. So nothing of the kernel's traffic control is
needed: sch_netem is not in every kernel. Packets pass with their segmentation put off
(virtio_net_hdr), and are counted, and take their time, as the Ethernet frames of 1500 bytes that
they would be.

Namespaces have no names, and devices and processes end with the script, killed or not.
"""

import collections
import ctypes
import fcntl
import mmap
import os
import selectors
import signal
import struct
import subprocess
import sys
import time
from typing import NamedTuple

HUB = "10.213.0.1"
_ENTERED = "MONSOON_OWN_NETWORK"

# linux/if_tun.h, linux/virtio_net.h
_TUNSETIFF, _TUNSETOFFLOAD = 0x400454CA, 0x400454D0
_IFF_TUN, _IFF_NO_PI, _IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
_TUN_F_CSUM, _TUN_F_TSO4 = 0x01, 0x02
_VNET_HDR = struct.Struct("=BBHHHH")
_PR_SET_PDEATHSIG = 1
ETHERNET_HEADER = 14
# Of one read: a packet of 64 KiB with its header.
_LARGEST = 65536 + _VNET_HDR.size


def refusal():
    """Why this machine makes no namespaces and TUN devices for us; "" where it does."""
    tried = subprocess.run([*_unshare(), "sh", "-c", "ip tuntap add dev try mode tun"],
                           capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else (
        f"no network namespace with a TUN device ({tried.stderr.strip()}); it takes root, or user "
        "namespaces and a /dev/net/tun that all may open")


def enter_own_network():
    """Runs this script again from its beginning, in a new network namespace. The same process."""
    if os.environ.get(_ENTERED) != str(os.getpid()):
        os.environ[_ENTERED] = str(os.getpid())
        command = [*_unshare(), sys.executable, *sys.orig_argv[1:]]
        os.execvp(command[0], command)
    _ip("link", "set", "lo", "up")
    _ip("address", "add", f"{HUB}/32", "dev", "lo")


def _unshare():
    return ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]


def _ip(*arguments, inside=()):
    subprocess.run([*inside, "ip", *arguments], check=True)


class Count(NamedTuple):
    """What a link has carried: bytes as Ethernet frames have them, packets, and what was lost.
    Up is towards the hub."""

    up: int
    down: int
    packets_up: int
    packets_down: int
    lost: int

    def since(self, before):
        return Count(*(now - then for now, then in zip(self, before)))

    def ip_bytes(self):
        """Both ways, without the Ethernet headers."""
        return self.up + self.down - ETHERNET_HEADER * (self.packets_up + self.packets_down)


# Of a link in the memory that the carrier shares with the script: Count's fields, then cut.
_FIELDS = len(Count._fields) + 1
_CUT = _FIELDS - 1


class ShapedLinks:
    """Thread safety: as a dict's; counters are read as they are."""

    def __init__(self, count, mbit=100.0, delay_ms=50.0):
        self._count, self._bytes_s, self._delay_s = count, mbit * 1e6 / 8, delay_ms / 1e3
        self._memory = mmap.mmap(-1, 8 * _FIELDS * count)
        self._fields = memoryview(self._memory).cast("Q")
        self._holders = []
        self._carrier = 0

    def __enter__(self):
        try:
            pairs = [self._make(i) for i in range(self._count)]
            self._carrier = os.fork()
            if self._carrier == 0:
                try:
                    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                    _go_first()
                    _Carrier(pairs, self._fields, self._bytes_s, self._delay_s).run()
                finally:
                    os._exit(1)
            for pair in pairs:
                for descriptor in pair:
                    os.close(descriptor)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        if self._carrier:
            os.kill(self._carrier, signal.SIGKILL)
            os.waitpid(self._carrier, 0)
            self._carrier = 0
        for holder in self._holders:
            holder.kill()
            holder.wait()
        self._holders = []

    def _make(self, number):
        """The namespace of a link and its two ends: descriptors of the hub's and the other's."""
        holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c",
             "echo made && exec sleep infinity"], stdout=subprocess.PIPE, text=True)
        self._holders.append(holder)
        if holder.stdout.readline().strip() != "made":
            raise RuntimeError(f"link {number}: unshare made no network namespace")
        here, there = f"10.213.{number + 1}.1", f"10.213.{number + 1}.2"
        hub, far = f"hub{number}", f"far{number}"
        ends = [_open_tun(hub), _open_tun(far)]
        _ip("address", "add", here, "peer", there, "dev", hub)
        _ip("link", "set", hub, "up")
        _ip("link", "set", far, "netns", str(holder.pid))
        inside = self.inside(number)
        _ip("link", "set", "lo", "up", inside=inside)
        _ip("address", "add", there, "peer", here, "dev", far, inside=inside)
        _ip("link", "set", far, "up", inside=inside)
        _ip("route", "add", "default", "via", here, inside=inside)
        return ends

    def inside(self, number):
        """What a command line begins with to run behind this link."""
        return ["nsenter", f"--net=/proc/{self._holders[number].pid}/ns/net"]

    def count(self, number):
        at = number * _FIELDS
        return Count(*self._fields[at:at + len(Count._fields)])

    def cut(self, number, cut=True):
        """A link that is cut loses everything, until it is joined again with cut=False."""
        self._fields[number * _FIELDS + _CUT] = int(cut)


def _go_first():
    """A link waits for no core, where we may say so."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        pass


def _open_tun(name):
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    flags = _IFF_TUN | _IFF_NO_PI | _IFF_VNET_HDR
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    fcntl.ioctl(descriptor, _TUNSETOFFLOAD, _TUN_F_CSUM | _TUN_F_TSO4)
    return descriptor


def frames_of(packet):
    """(bytes, number) of the Ethernet frames that a packet behind its virtio_net_hdr makes."""
    _, gso_type, _, gso_size, _, _ = _VNET_HDR.unpack_from(packet)
    size = len(packet) - _VNET_HDR.size
    if gso_type == 0:
        return size + ETHERNET_HEADER, 1
    ip = _VNET_HDR.size
    ip_header = 4 * (packet[ip] & 15)
    headers = ip_header + 4 * (packet[ip + ip_header + 12] >> 4)  # TCP's data offset
    frames = max(1, -(-(size - headers) // gso_size))
    return size - headers + frames * (headers + ETHERNET_HEADER), frames


class _Way:
    """One direction of a link."""

    def __init__(self, source, sink, at, packets_at, lost_at, cut_at):
        self.source, self.sink = source, sink
        self.at, self.packets_at, self.lost_at, self.cut_at = at, packets_at, lost_at, cut_at
        self.free_at = 0.0  # when all that waits has left
        self.travelling = collections.deque()  # (arrival, packet), the first one first


class _Carrier:
    def __init__(self, pairs, fields, bytes_s, delay_s):
        self._fields, self._bytes_s, self._delay_s = fields, bytes_s, delay_s
        self._ways = []
        names = Count._fields
        for number, (hub, far) in enumerate(pairs):
            at = number * _FIELDS
            for source, sink, way in ((far, hub, "up"), (hub, far, "down")):
                self._ways.append(_Way(source, sink, at + names.index(way),
                                       at + names.index(f"packets_{way}"),
                                       at + names.index("lost"), at + _CUT))

    def run(self):
        selector = selectors.DefaultSelector()
        for way in self._ways:
            selector.register(way.source, selectors.EVENT_READ, way)
        while True:
            heads = [way.travelling[0][0] for way in self._ways if way.travelling]
            wait = max(0.0, min(heads) - time.monotonic()) if heads else None
            for key, _ in selector.select(wait):
                self._take(key.data)
            now = time.monotonic()
            for way in self._ways:
                while way.travelling and way.travelling[0][0] <= now:
                    self._deliver(way, way.travelling.popleft()[1])

    def _take(self, way):
        try:
            while True:
                self._queue(way, os.read(way.source, _LARGEST))
        except BlockingIOError:
            pass

    def _queue(self, way, packet):
        size, frames = frames_of(packet)
        now = time.monotonic()
        leaves = max(now, way.free_at) + size / self._bytes_s
        full = leaves - now > 2 * self._delay_s + size / self._bytes_s
        if full or self._fields[way.cut_at]:
            self._fields[way.lost_at] += frames
            return
        way.free_at = leaves
        self._fields[way.at] += size
        self._fields[way.packets_at] += frames
        way.travelling.append((leaves + self._delay_s, packet))

    def _deliver(self, way, packet):
        if self._fields[way.cut_at]:
            self._fields[way.lost_at] += 1
            return
        try:
            os.write(way.sink, packet)
        except OSError:  # the namespace is gone, or has no room
            self._fields[way.lost_at] += 1
