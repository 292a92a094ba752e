"""Workers that take each step together (synchronous { }), with the real programs as a user calls
them: each way to sum has the bits of the others, workers, a parameter server and the coordinator
are killed and stopped, all workers at once, too, and jobs go from one mode to another and back.

Every batch of the data must be in exactly one step, whatever dies.
"""

import os
import pathlib
import signal
import tempfile
import time

from tests.tools.local_cluster import PATIENCE_S, UNREACHABLE, LocalCluster, poll
from tests.tools.tiny_job import tiny_job

BATCH, EXAMPLES = 10, 4000
PER_EPOCH = EXAMPLES // BATCH
LOST_AFTER_S = 2
DOWNPOUR = "downpour { optimizer { momentum { rate: 0.02 momentum: 0.9 } } }"
SETTINGS = ["heartbeat_ms: 100", f"lost_after_ms: {LOST_AFTER_S * 1000}"]
GOING = ("PENDING", "RUNNING")


def add_options(parser):
    parser.add_argument("--faults", type=int, default=6)
    parser.add_argument("--seconds_each", type=float, default=1.0)


def job_text(synchronous, epochs, units=200):
    return tiny_job(units=units, examples=EXAMPLES, more=f"""
batch_size: {BATCH}
stripe_kib: 4
{DOWNPOUR}
synchronous {{ {synchronous} }}
stop {{ epochs: {epochs} }}
checkpoint {{ every_seconds: 1 }}
""")


def new_cluster(options, ps=2, workers=3):
    return LocalCluster(ps=ps, workers=workers, bin_dir=options.bin, settings=SETTINGS,
                        extra_flags=("--restart_backoff=0.1", "--restart_limit=0"))


def try_describe(cluster, job):
    return cluster.try_describe(job, may_give=(UNREACHABLE,))


def await_updates(cluster, job, more):
    """Until the job has taken so many steps more than now, or has ended; its description."""
    # Before the job runs it tells nothing of groups.
    first = poll(lambda: (now := try_describe(cluster, job)) and now["synchronous"] and now)
    goal = first["synchronous"]["updates"] + more

    def reached():
        now = try_describe(cluster, job)
        done = now and (now["synchronous"]["updates"] >= goal or now["state"] not in GOING)
        return now if done else None

    return poll(reached, timeout_s=2 * PATIENCE_S)


def check_exact(checks, what, described, epochs):
    step = described["progress"]["step"]
    checks.check(f"{what}: the job succeeds", described["state"] == "SUCCEEDED",
                 described["reason"])
    checks.check(f"{what}: each batch is in one step", step == epochs * PER_EPOCH, step)
    versions = {shard[key] for shard in described["shards"]
                for key in ("version_min", "version_max")}
    together = described["synchronous"]
    checks.check(f"{what}: all shards store the last step",
                 versions == {together["updates"]} and together["stored"] == together["updates"],
                 (versions, together))


def check_same_bits(checks, options, folder):
    """Of all ways that keep to an order, and of one worker that sums as many batches."""
    with new_cluster(options, workers=2) as cluster:
        models = {}
        for reduce in ("NAIVE", "TREE", "RING", "DIRECT", "EXCHANGE", "AUTO"):
            path = folder / "job.textproto"
            path.write_text(job_text(f"reduce: {reduce} sum_order: BY_RANK", epochs=1))
            described = cluster.run(path)
            check_exact(checks, reduce, described, epochs=1)
            out = folder / f"{reduce}.npz"
            cluster.command("export", described["job"], f"--out={out}")
            models[reduce] = out.read_bytes()
        differ = [reduce for reduce, model in models.items() if model != models["RING"]]
        checks.check("all ways to sum give the same bits", not differ, differ)
        path.write_text(job_text("reduce: SHARDS", epochs=1))
        shards = cluster.run(path, {"downpour.workers": 2})
        checks.check("SHARDS: the job succeeds", shards["state"] == "SUCCEEDED")
        path.write_text(job_text("reduce: SHARDS backup_workers: 1", epochs=1))
        backup = cluster.run(path, {"downpour.workers": 2})
        checks.check("a backup worker's late gradients are left out",
                     backup["counts"]["dropped"] > 0, backup["counts"])


def check_over_tls(checks, options, folder):
    """Workers that listen for TCP prove to each other who they are, as on machines of their own."""
    workers = ['worker { address: "127.0.0.1:0" threads: 1 device: CPU }'] * 3
    with LocalCluster(ps=1, workers=0, bin_dir=options.bin, settings=[*SETTINGS, *workers],
                      environment={"MONSOON_TRANSPORT": "grpc"}) as cluster:
        path = folder / "tls.textproto"
        path.write_text(job_text("reduce: AUTO", epochs=1))
        check_exact(checks, "over TLS", cluster.run(path), epochs=1)
        log = cluster.log_path.read_text()
        checks.check("they sum over gRPC", "at 127.0.0.1:" in log and ": gRPC" in log, log[-2000:])
        checks.check("nobody is taken without a credential", "--insecure" not in log)


def signal_worker(described, number, task):
    pid = next(worker["pid"] for worker in described["workers"] if worker["task"] == task)
    os.kill(pid, number)
    return pid


def check_deaths(checks, options, folder):
    epochs = 1000
    with new_cluster(options) as cluster:
        path = folder / "deaths.textproto"
        # 2.9 MiB in three parts, of which the first is final two layers before the end.
        path.write_text(job_text("reduce: RING fuse_mib: 1", epochs=epochs, units=600).replace(
            "layer { dense { units: 3 } }",
            "layer { dense { units: 600 } } layer { tanh {} } layer { dense { units: 600 } } "
            "layer { tanh {} } layer { dense { units: 3 } }"))
        job = cluster.submit(path)
        longest = 0.0
        for fault in range(options.faults):
            now = await_updates(cluster, job, more=20)
            if now["state"] not in GOING:
                break
            task = fault % 3
            began = time.monotonic()
            kind = ("worker killed", "worker stopped", "ps killed", "coordinator killed",
                    "worker killed", "all workers killed")[fault % 6]
            if kind == "worker killed":
                signal_worker(now, signal.SIGKILL, task)
            elif kind == "worker stopped":
                stopped = signal_worker(now, signal.SIGSTOP, task)
            elif kind == "ps killed":
                os.kill(now["shards"][fault % 2]["pid"], signal.SIGKILL)
            elif kind == "coordinator killed":
                os.kill(cluster.coordinator_pid(), signal.SIGKILL)
            else:
                for worker in now["workers"]:
                    os.kill(worker["pid"], signal.SIGKILL)
            after = await_updates(cluster, job, more=1)
            longest = max(longest, time.monotonic() - began)
            print(f"  {kind}: the next step after {time.monotonic() - began:.2f} s", flush=True)
            if kind == "worker stopped":
                checks.check("a stopped worker holds the others up for no longer than it may be "
                             "silent, and a second", time.monotonic() - began <= LOST_AFTER_S + 1,
                             time.monotonic() - began)
                os.kill(stopped, signal.SIGCONT)
            checks.check(f"{kind}: the job goes on", after and after["state"] in GOING,
                         after and after["reason"])
            time.sleep(options.seconds_each)  # of training, and of generations
        cluster.command("cancel", job)
        cancelled = poll(lambda: (now := try_describe(cluster, job)) and
                         now["state"] == "CANCELLED" and now)
        checks.check("it can be cancelled", cancelled)
        print(f"  {cancelled['synchronous']}", flush=True)


def check_short_job_with_deaths(checks, options, folder):
    """To its end, so that its steps can be counted."""
    epochs = 40
    with new_cluster(options) as cluster:
        path = folder / "short.textproto"
        path.write_text(job_text("reduce: TREE", epochs=epochs, units=400))
        job = cluster.submit(path)
        for fault in range(4):
            now = await_updates(cluster, job, more=200)
            if now["state"] not in GOING:
                break
            signal_worker(now, signal.SIGKILL, fault % 3)
        cluster.command("watch", job, check=False, timeout=300)
        described = cluster.describe(job)
        check_exact(checks, "with workers killed", described, epochs)
        checks.check("groups were broken", described["synchronous"]["broken"] > 0)


def check_modes_follow(checks, options, folder):
    """Downpour, synchronous, Downpour: each goes on where the one before has ended."""
    with new_cluster(options) as cluster:
        path = folder / "follow.textproto"
        path.write_text(job_text("reduce: RING", epochs=1).replace(
            "synchronous { reduce: RING }", ""))
        first = cluster.run(path)
        second = cluster.run(None, {"stop.epochs": 2, "synchronous.reduce": "RING"},
                             flags=[f"--resume={first['job']}"])
        check_exact(checks, "after Downpour", second, epochs=2)
        checks.check("its data are those after the first job's",
                     second["progress"]["epoch"] == 2, second["progress"])
        third = cluster.run(None, {"stop.epochs": 3},
                            flags=[f"--resume={second['job']}"])
        check_exact(checks, "after itself", third, epochs=3)


def run(checks, options):
    with tempfile.TemporaryDirectory(prefix="monsoon-") as folder:
        folder = pathlib.Path(folder)
        check_same_bits(checks, options, folder)
        check_over_tls(checks, options, folder)
        check_short_job_with_deaths(checks, options, folder)
        check_deaths(checks, options, folder)
        check_modes_follow(checks, options, folder)
