"""Two programs behind slow links of 100 Mbit/s and 100 ms there and back (shaped_link.py), in
rounds of all with 4 bits both ways: the links do what they say, a round has the bytes that
docs/low_communication.md says, and a link that is cut for three seconds costs its time and
nothing else. Skipped where this machine makes no network namespaces for us.
"""

import struct
import subprocess
import sys
import time

from tests.slow_network import shaped_link, ways
from tests.slow_network.hub_cluster import HubCluster
from tests.slow_network.linked import Program
from tests.tools.local_cluster import PATIENCE_S

REPLICAS = 2
PARAMETERS, TENSORS = 200_000, 4
EVERY, ROUNDS, STEP_S = 20, 12, 0.02
# In the middle between two pushes: bytes are of four rounds, the cut comes after them.
MEASURED = (EVERY + EVERY // 2, 5 * EVERY + EVERY // 2)
AFTER_CUT = 8 * EVERY + EVERY // 2
CUT_S = 3.0
# Ethernet, IP and TCP headers are 66 of 1514 bytes; acknowledgements, HTTP/2, heartbeats and
# leases weigh more here than beside a large model.
HEADERS = 1.12
_TCP_HEADERS = 52  # with time stamps


def check_frames(checks):
    """By hand: 3000 bytes in segments of 1448 are 3 frames of 66 bytes of headers each."""
    tcp = bytes([0x45]) + bytes(19) + bytes(12) + bytes([8 << 4]) + bytes(19)
    put_off = struct.pack("=BBHHHH", 1, 1, _TCP_HEADERS, 1448, 20, 16) + tcp + bytes(3000)
    seen = shaped_link.frames_of(put_off)
    checks.check("frames of a packet that is not cut yet", seen == (3000 + 3 * 66, 3), seen)
    whole = struct.pack("=BBHHHH", 0, 0, 0, 0, 0, 0) + tcp
    seen = shaped_link.frames_of(whole)
    checks.check("the frame of a small packet", seen == (_TCP_HEADERS + 14, 1), seen)


def check_link(checks, links):
    """Half a megabyte, and one byte back."""
    size = 500_000
    server = subprocess.Popen(
        [sys.executable, "-c", "import socket, sys\n"
         f"server = socket.create_server(('{shaped_link.HUB}', 0))\n"
         "print(server.getsockname()[1], flush=True)\n"
         "peer, left = server.accept()[0], int(sys.argv[1])\n"
         "while left: left -= len(peer.recv(left))\n"
         "peer.sendall(b'x')\npeer.recv(1)", str(size)], stdout=subprocess.PIPE, text=True)
    port = server.stdout.readline().strip()
    before = links.count(0)
    took = float(subprocess.run(
        [*links.inside(0), sys.executable, "-c", "import socket, time\n"
         f"peer = socket.create_connection(('{shaped_link.HUB}', {port}))\n"
         f"began = time.monotonic()\npeer.sendall(bytes({size}))\n"
         "peer.recv(1)\nprint(time.monotonic() - began)"],
        stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE_S).stdout)
    server.wait(timeout=PATIENCE_S)
    link = links.count(0).since(before)
    least = 0.1 + 8 * size / 100e6
    checks.check("100 Mbit/s and 100 ms there and back", least <= took < 20 * least, (took, least))
    headers = link.up - 66 * link.packets_up
    checks.check("each byte is counted with its headers", size <= headers < 1.01 * size, link)


def train(checks, options, links):
    settings = {"parameters": PARAMETERS, "tensors": TENSORS, "replicas": REPLICAS,
                "step_s": STEP_S, "every": EVERY, "marks": [*MEASURED, AFTER_CUT],
                "examples": ROUNDS * EVERY * REPLICAS, "block": EVERY // 4}
    with HubCluster(options.bin, ps=2, settings=["lost_after_ms: 15000"]) as cluster:
        programs = []
        try:
            programs = [Program(links, i, options.bin, cluster, "rounds", settings)
                        for i in range(REPLICAS)]
            for program in programs:
                program.await_told(MEASURED[1], PATIENCE_S)
            before = links.count(0)
            links.cut(0)
            time.sleep(CUT_S)  # of the cut itself
            links.cut(0, False)
            cut = links.count(0).since(before)
            told = [program.await_told("end", PATIENCE_S) for program in programs]
            codes = [program.process.wait(timeout=PATIENCE_S) for program in programs]
            described = cluster.describe("link-1")
        except BaseException:
            print(cluster.log_path.read_text()[-4000:])
            raise
        finally:
            for program in programs:
                program.end()
    checks.check("programs end by themselves", codes == [0] * REPLICAS, codes)
    checks.check("the job succeeds", described["state"] == "SUCCEEDED", described["reason"])
    checks.check("each step is taken once", sum(each["steps"] for each in told) ==
                 settings["examples"], told)
    checks.check("nobody is lost, refused or begins again", all(
        (each["sessions"], each["refused"], each["discarded"]) == (1, 0, 0) for each in told), told)
    checks.check("the cut loses packets", cut.lost > 0, cut)
    stood = programs[0].told[AFTER_CUT]["time"] - programs[0].told[MEASURED[1]]["time"]
    checks.check("no round ends without the link", CUT_S <= stood, stood)
    for number, program in enumerate(programs):
        first, last = (program.told[mark] for mark in MEASURED)
        rounds = last["pushes"] - first["pushes"]
        checks.check(f"program {number} has a push a round", rounds == 4, (first, last))
        link = last["link"].since(first["link"])
        for way, seen, carried in (("pushed", last["bytes_pushed"] - first["bytes_pushed"],
                                    link.up),
                                   ("fetched", last["bytes_fetched"] - first["bytes_fetched"],
                                    link.down)):
            said = rounds * ways.INT4 * PARAMETERS
            checks.check(f"program {number} has {way} what the table says",
                         said <= seen <= 1.01 * said, seen / said)
            checks.check(f"the link of program {number} carries that and headers, {way}",
                         said <= carried <= HEADERS * said, carried / said)
    print(f"of {link.up + link.down} bytes on a link {2 * said:.0f} are what the table says; a cut "
          f"of {CUT_S:g} s lost {cut.lost} packets, and took {stood:.1f} s with three rounds")


def run(checks, options):
    if why := shaped_link.refusal():
        check_frames(checks)
        checks.skip("the links", why)
        return
    shaped_link.enter_own_network()
    check_frames(checks)
    with shaped_link.ShapedLinks(REPLICAS, mbit=100, delay_ms=50) as links:
        check_link(checks, links)
        train(checks, options, links)
