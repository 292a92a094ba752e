"""Data files on the disks of the machines that train, and nowhere else: whoever submits elsewhere
is told whose disk was looked at. Machines are namespaces here (tests/tools/machines.py), and each disk
a folder that is mounted at one path, on each machine its own.
"""

import pathlib
import subprocess
import tempfile

from tests.process.machines import ENDED, Cluster, await_tasks
from tests.tools import machines
from tests.tools.local_cluster import poll

# Nobody who trains is on gamma, where the coordinator is and jobs are submitted.
CLUSTER = """
coordinator { address: "gamma:2221" }
ps { address: "gamma:2222" }
worker { address: "alpha:2301" device: CPU threads: 1 }
worker { address: "beta:2301" device: CPU threads: 1 }
heartbeat_ms: 100
"""
JOB = """
model { input_shape: 2 layer { dense { units: 2 } } }
train { csv { file: "%s/train.csv" label: "kind" } }
batch_size: 5
downpour { optimizer { sgd { rate: 0.1 } } }
stop { epochs: 3 }
"""
FILE = "cluster.textproto"


def table(rows, last="cat"):
    """Of a CSV file."""
    kinds = ["cat", "dog"] * (rows // 2)
    kinds[-1] = last
    return "a,b,kind\n" + "".join(f"{i},{-i},{kind}\n" for i, kind in enumerate(kinds))


class Disks:
    """One folder, with other contents on each machine."""

    def __init__(self, folder, all_machines):
        self.path = folder / "data"
        self.path.mkdir()
        self._own = {name: folder / name for name in all_machines.names}
        for name, own in self._own.items():
            own.mkdir()
            subprocess.run([*all_machines.on(name), "mount", "--bind", own, self.path], check=True)

    def write(self, name, text):
        (self._own[name] / "train.csv").write_text(text)

    def link(self, name, target):
        (self._own[name] / "train.csv").unlink()
        (self._own[name] / "train.csv").symlink_to(target)

    def remove(self):
        for own in self._own.values():
            (own / "train.csv").unlink(missing_ok=True)


def submit(cluster, job):
    return cluster.run("gamma", ["coordinator", "submit", job, f"--cluster={FILE}"], check=False)


def check_refusals(checks, cluster, disks, job):
    missing = f"cannot read {disks.path}/train.csv"
    answer = submit(cluster, job)
    checks.check("a file that is on no worker's disk is refused", answer.returncode == 2 and
                 f"worker/0 on alpha, worker/1 on beta: {missing}" in answer.stderr, answer.stderr)
    disks.write("alpha", table(100))
    answer = submit(cluster, job)
    checks.check("the machine that lacks it is named", answer.returncode == 2 and
                 f"job.textproto:3:21: error: train.csv.file: worker/1 on beta: {missing}" in
                 answer.stderr and "alpha" not in answer.stderr, answer.stderr)
    disks.write("beta", table(60))
    answer = submit(cluster, job)
    checks.check("machines with other files are told apart", answer.returncode == 2 and
                 "worker/1 on beta: it sees 60 samples of [2], 2 classes where worker/0 on alpha "
                 "sees 100 samples" in answer.stderr, answer.stderr)
    jobs = cluster.run("gamma", ["coordinator", "jobs", "--json", f"--cluster={FILE}"]).stdout
    checks.check("nothing that was refused is a job", '"jobs":[]' in jobs, jobs)


def check_what_is_told(checks, cluster, disks, job):
    """Whoever submits need not be one who may read the workers' files."""
    for name in ("alpha", "beta"):
        disks.write(name, "root:$6$Xyzzy:19000\nbin:Plugh:18000\n")
    answer = submit(cluster, job)
    checks.check("what stands in a file is not told", answer.returncode == 2 and
                 "no column is called \"kind\" (label); there are 1 columns" in answer.stderr and
                 "Xyzzy" not in answer.stderr and "Plugh" not in answer.stderr, answer.stderr)
    for name in ("alpha", "beta"):
        disks.link(name, "/etc/passwd")
    answer = submit(cluster, job)
    checks.check("a link out of the data folders is refused", answer.returncode == 2 and
                 f"train.csv leads by a link out of {disks.path}, where alone" in answer.stderr and
                 "--data=DIR" in answer.stderr and "root:" not in answer.stderr, answer.stderr)
    disks.remove()


def check_training(checks, cluster, disks, job):
    disks.write("beta", table(100, last="dog"))
    answer = submit(cluster, job)
    checks.check("files that differ in a value are told of", answer.returncode == 0 and
                 "warning: train: worker/1 on beta: its files differ from those of worker/0 on "
                 "alpha" in answer.stderr, answer.stderr)
    cluster.run("gamma", ["coordinator", "cancel", "latest", "--wait", f"--cluster={FILE}"],
                check=False)
    disks.write("beta", table(100))
    answer = submit(cluster, job)
    checks.check("the submitter is told whose disks were looked at", answer.returncode == 0 and
                 "as seen by worker/0 on alpha, worker/1 on beta: train 100 samples of [2], 2 "
                 "classes" in answer.stderr, answer.stderr)
    ended = poll(lambda: (now := cluster.describe("gamma", "latest")) and now["state"] in ENDED and
                 now)
    checks.check("the job trains on what the coordinator's machine has not", ended and
                 ended["state"] == "SUCCEEDED", ended or cluster.logs())


def run(checks, options):
    if why := machines.refusal():
        checks.skip("whose_disk", why)
        return
    with machines.Machines("alpha", "beta", "gamma") as three, \
            tempfile.TemporaryDirectory(prefix="monsoon-") as folder, \
            Cluster(options, three, CLUSTER) as cluster:
        disks = Disks(pathlib.Path(folder), three)
        for name in three.names:
            cluster.start(name, ["coordinator", "up", f"--cluster={FILE}", "--insecure",
                                 f"--data={disks.path}"])
        tasks = await_tasks(cluster, ["coordinator", "tasks", f"--cluster={FILE}"], "gamma", 4)
        checks.check("all tasks are up", tasks != "", cluster.logs())
        job = cluster.write("job.textproto", JOB % disks.path)
        check_what_is_told(checks, cluster, disks, job)
        check_refusals(checks, cluster, disks, job)
        check_training(checks, cluster, disks, job)
