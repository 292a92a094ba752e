#!/usr/bin/python3
"""What it costs a push of 64 MiB that it survives its parameter server: kept by who pushes
until two generations hold it, beside the same job with `checkpoint { off: true }`.

    tests/benchmarks/kept_pushes.py [--rounds=7] [--quick]

One ps with 64 MiB of parameters and as much of Adagrad's state, one process that pushes
(tests/cluster/ledger_pusher.cc), over gRPC and in shared memory:

  paced      4 pushes a second, checkpoints as they come, a window of 1 GiB
  flat out   as fast as it goes, 50 at a time with room in the window for all; before and
             between, all becomes durable, so that the window's memory was used before
  full       as fast as it goes through a window of 512 MiB: the disk sets the rate, and
             stands beside it

First each job without checkpoints against itself: what the machine's noise is. At the end
of a turn each stripe must have been pushed to as often as the pusher says.
"""

import os
import pathlib
import sys
import tempfile
import time

import measure
from measure import Row, at_least, median_of, paired

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from local_cluster import BIN, LocalCluster  # noqa: E402
from pusher import Pusher  # noqa: E402

JOB = """
name: "wide"
model {
  name: "wide"
  input_shape: INPUT
  layer { dense { units: 4096 no_bias: true } }
}
train { synthetic { examples: 1000 classes: 4 seed: 1 center_seed: 9 noise: 3 } }
seed: 5
batch_size: 4
downpour { optimizer { adagrad { rate: 0.001 } } }
stop { steps: 100000000 }
"""
INPUT = 4096  # x 4096 floats are 64 MiB
PUSH_MIB = 64
TRANSPORTS = ("grpc", "shared_memory")
SIDES = ("off", "off again", "kept")
PATIENCE_S = 120
BURST = 50
# By name: flags of the pusher, pushes before those that are measured, those, and what is
# wanted over each transport.
MODES = {
    "paced at 4/s": (["--every_us=250000", "--window_mib=1024"], 3, 40, (0.95, 0.95)),
    # Asks for checkpoints from a quarter on, which is not reached.
    "flat out, room in the window": (["--window_mib=16384", f"--burst={BURST}"], BURST + 3,
                                     BURST - 3, (0.95, 0.8)),
    "flat out, a full window": (["--window_mib=512"], 3, 60, None),
}


def await_pushes(pusher, count):
    """When the pusher has had so many acknowledged."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if pusher.books().acknowledged >= count:
            return time.monotonic()
        if pusher.process.poll() is not None:
            raise RuntimeError(f"the pusher ended: {pusher.errors.read_text()}")
        time.sleep(0.001)
    raise RuntimeError(f"no {count} pushes within {PATIENCE_S} s: {pusher.books()}")


def await_versions(cluster, job, pushes):
    """The description once the coordinator has seen that each stripe has all pushes."""
    deadline = time.monotonic() + 10
    while True:
        described = cluster.describe(job)
        versions = {described["shards"][0][key] for key in ("version_min", "version_max")}
        if versions == {pushes}:
            return described
        if time.monotonic() > deadline:
            raise RuntimeError(f"{job}: {pushes} pushes, stripes have {versions}")
        time.sleep(0.1)


def rate(cluster, job_file, mode, transport, side, quick):
    """Pushes a second."""
    flags, before, pushes, _ = MODES[mode]
    before, pushes = (3, 6) if quick else (before, pushes)
    settings = {} if side == "kept" else {"checkpoint.off": "true"}
    job = cluster.submit(job_file, settings)
    with tempfile.TemporaryDirectory(prefix="monsoon-") as folder:
        pusher = Pusher(BIN, cluster, folder, 0, flags,
                        {**os.environ, "MONSOON_TRANSPORT": transport})
        try:
            began = await_pushes(pusher, before)
            first = pusher.books().acknowledged
            ended = await_pushes(pusher, first + pushes)
            done = pusher.books().acknowledged - first
            pusher.process.terminate()
            if pusher.process.wait(timeout=PATIENCE_S) != 0:
                raise RuntimeError(f"the pusher failed: {pusher.errors.read_text()}")
            all_pushes = pusher.books().acknowledged
        finally:
            pusher.process.kill()
    described = await_versions(cluster, job, all_pushes)
    if side == "kept" and not quick and described["durability"]["generation"] == 0:
        raise RuntimeError(f"{job}: no generation was made")
    cluster.command("cancel", job, "--wait")
    cluster.command("delete", job)
    return done / (ended - began)


def disk_rate(folder):
    """MiB a second of a generation's 128 MiB, written and synced."""
    path = pathlib.Path(folder) / "probe"
    block = os.urandom(1 << 20)
    began = time.monotonic()
    with open(path, "wb") as file:
        for _ in range(2 * PUSH_MIB):
            file.write(block)
        file.flush()
        os.fdatasync(file.fileno())
    seconds = time.monotonic() - began
    path.unlink()
    return 2 * PUSH_MIB / seconds


def rows_of(mode, columns, disk):
    rows = []
    for place, transport in enumerate(TRANSPORTS):
        off = columns[mode, transport, "off"]
        for side in SIDES[1:]:
            column = columns[mode, transport, side]
            wanted = MODES[mode][3]
            bound = at_least(wanted[place]) if side == "kept" and wanted else None
            rows.append(Row(f"pushes {mode}, {transport}: {side} / off", f"{PUSH_MIB} MiB",
                            "1 pusher", median_of(column), median_of(off), "pushes/s",
                            paired(column, off), bound))
        if MODES[mode][3] is None:
            kept = [PUSH_MIB * value for value in columns[mode, transport, "kept"]]
            rows.append(Row(f"pushes {mode}, {transport} / the disk", f"{PUSH_MIB} MiB",
                            "1 pusher", median_of(kept), median_of(disk), "MiB/s",
                            paired(kept, disk), None))
    return rows


def measure_kept(options):
    """Rows of all modes."""
    columns = {(mode, transport, side): [] for mode in MODES for transport in TRANSPORTS
               for side in SIDES}
    disk = []
    with tempfile.TemporaryDirectory(prefix="monsoon-") as folder, \
            LocalCluster(ps=1, workers=0, settings=["open: true"]) as cluster:
        job_file = pathlib.Path(folder) / "wide.textproto"
        job_file.write_text(JOB.replace("INPUT", str(64 if options.quick else INPUT)))
        for number_of_round in range(options.rounds):
            disk.append(disk_rate(cluster.state_dir))
            for mode in MODES:
                for transport in TRANSPORTS:
                    shift = number_of_round % len(SIDES)
                    for side in SIDES[shift:] + SIDES[:shift]:
                        pushed = rate(cluster, job_file, mode, transport, side, options.quick)
                        columns[mode, transport, side].append(pushed)
                        measure.log(f"{mode}, {transport}, {side}: {pushed:.2f} pushes/s")
    return [row for mode in MODES for row in rows_of(mode, columns, disk)]


if __name__ == "__main__":
    measure.run_program(measure_kept, measure.options_parser(__doc__))
