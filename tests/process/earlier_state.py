"""Goes on with what the programs of an earlier version have left on the disk.

Its job files had other words for local steps: journal and generations hold them under other field
numbers. Today's programs must take up both jobs of testdata/README.md as what they were: one that
was killed while it trained, and one that had ended and is resumed.
"""

import json
import pathlib
import tarfile
import tempfile

from tests.tools.local_cluster import LocalCluster, poll

STATE = pathlib.Path(__file__).parent / "testdata" / "earlier_local_steps.tar.gz"
LOCAL_STEPS = 8
FRAGMENTS = 2
EPOCHS = 4000  # of earlier-2: 400,000 steps of 20 samples


def steps_a_push(described):
    counts = described["counts"]
    return counts["steps"] / max(1, counts["pushes"])


def check_killed(checks, cluster):
    """The job that trained when all processes were killed."""
    begun = cluster.describe("earlier-2")
    checks.check("the killed job is known", begun["state"] not in ("FAILED", "CANCELLED") and
                 begun["durability"]["promise"] == "exactly_once" and
                 begun["durability"]["generation"] >= 2, begun)
    ended = poll(lambda: (found := cluster.describe("earlier-2"))["state"] in
                 ("SUCCEEDED", "FAILED") and found, timeout_s=300, every_s=0.5)
    checks.check("the killed job trains to its end", ended and ended["state"] == "SUCCEEDED" and
                 ended["progress"]["epoch"] == EPOCHS, ended or cluster.describe("earlier-2"))
    # Each of its sessions' last difference may be short, and slower workers take fewer steps.
    checks.check("its pushes are differences of local steps", ended and
                 LOCAL_STEPS / 2 < steps_a_push(ended) <= LOCAL_STEPS, ended and ended["counts"])


def check_ended(checks, cluster):
    """The job that had ended: its generation says how to go on."""
    report = json.loads(cluster.command("inspect", "streamed-1", "--json").stdout)
    checks.check("generations of the ended job are whole", report["ok"] and
                 report["generations"][0]["context"]["final"], report)
    resumed = cluster.run(None, {"stop.epochs": 20}, timeout=300, flags=["--resume=streamed-1",
                                                                        "--name=more"])
    checks.check("the ended job trains on", resumed["state"] == "SUCCEEDED" and
                 resumed["progress"]["epoch"] >= 20, resumed)
    # What ends a session pushes is shorter.
    checks.check("its fragments leave in turn", LOCAL_STEPS / FRAGMENTS / 2 < steps_a_push(resumed)
                 <= LOCAL_STEPS / FRAGMENTS, resumed["counts"])


def run(checks, options):
    with tempfile.TemporaryDirectory(prefix="monsoon-") as folder:
        with tarfile.open(STATE) as archive:
            archive.extractall(folder)
        with LocalCluster(ps=2, workers=2, bin_dir=options.bin, name="earlier",
                          state_dir=pathlib.Path(folder) / "state") as cluster:
            check_ended(checks, cluster)
            check_killed(checks, cluster)
