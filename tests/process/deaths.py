"""Kills and stops parameter servers and the coordinator under a job, and stops the whole
cluster and starts it again, with the real programs as a user calls them: `coordinator up`
starts what has died, and nothing is lost or counted twice.

--job: nesterov is delayed Nesterov, and of rounds each has one difference of five local steps
(quorum: 1), so that versions are pushes as well. streaming sends two fragments in turn, 4 bits up
and changes of 8 bits down.

A drained worker leaves and is started again by hand.

Every stripe must have applied exactly as many pushes as the workers made.
"""

import os
import pathlib
import signal
import tempfile
import time

from tests.process.options import add_transport
from tests.tools.local_cluster import PATIENCE_S, UNREACHABLE, LocalCluster, poll
from tests.tools.printing import print_times
from tests.tools.tiny_job import tiny_job

JOB = tiny_job(units=200, more="""
batch_size: 10
stripe_kib: 4
downpour { optimizer { adagrad { rate: 0.02 } } }
checkpoint { every_seconds: 1 }
""")
OPTIMIZER = "optimizer { adagrad { rate: 0.02 } }"
DOWNPOUR = {
    "adagrad": OPTIMIZER,
    "nesterov": "optimizer { nesterov { rate: 0.02 momentum: 0.9 period: 2 } }",
    "rounds": "local { steps: 5 inner { sgd { rate: 0.02 } } weight: TOKENS } rounds { quorum: 1 } "
              "optimizer { nesterov { rate: 0.7 momentum: 0.5 } }",
    "streaming": "local { steps: 4 inner { sgd { rate: 0.02 } } mixing: 0.25 "
                 "fragments { count: 2 order: BY_STRIPE } } push_format: INT4 fetch_changes: INT8 "
                 "optimizer { nesterov { rate: 0.35 momentum: 0.5 period: 2 } }",
}
# Steps between two faults: the job must have gone on by itself.
STEPS_BETWEEN = 300
# Of the job for each fault: far more than pass until it is over.
STEPS_EACH = 10000
SHARDS, WORKERS = 2, 2
GOES_ON = ("PENDING", "WARMSTART", "RUNNING")


def new_cluster(options, *flags):
    """Of the shards and two workers; `flags` of `coordinator up`."""
    return LocalCluster(ps=SHARDS, workers=WORKERS, bin_dir=options.bin, extra_flags=flags,
                        environment={"MONSOON_TRANSPORT": options.transport})


def try_describe(cluster, job):
    """None while the coordinator is being started."""
    return cluster.try_describe(job, may_give=(UNREACHABLE,))


def await_progress(cluster, job, what, reached):
    """The description once `reached(description)`; all shards answer then."""
    def look():
        """The description, when it is that or the job has ended."""
        now = try_describe(cluster, job)
        if now and (now["state"] not in GOES_ON or
                    (len(now["shards"]) == SHARDS and reached(now))):
            return now
        return None

    described = poll(look)
    if described and described["state"] in GOES_ON:
        return described
    described = described or try_describe(cluster, job)
    seen = "the coordinator does not answer" if described is None else [
        described[key] for key in ("state", "progress", "durability", "reason")]
    raise RuntimeError(f"{job} does not get to {what}: {seen}\n{cluster.end_of_log(40)}")


def kill(cluster, described, shard):
    os.kill(described["shards"][shard]["pid"], signal.SIGKILL)


def stop(cluster, described, shard):
    """Silent for longer than the client waits, but for less than what makes it lost."""
    pid = described["shards"][shard]["pid"]
    os.kill(pid, signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(pid, signal.SIGCONT)


def kill_coordinator(cluster, described, number):
    os.kill(cluster.coordinator_pid(), signal.SIGKILL)


def drain(cluster, described, number):
    """Lets a worker leave, and starts it again as a person would."""
    task = number % WORKERS
    cluster.command("drain", f"worker/{task}", "--wait", "--timeout=30")
    cluster.start_worker(task)


def start_anew(cluster, described, number):
    """Ctrl-C, and `up` again."""
    cluster.interrupt()
    cluster.start()


def plan(options):
    """The faults, of each kind in turn."""
    left = [[kill] * options.kills, [kill_coordinator] * options.coordinator_kills,
            [stop] * options.stops, [drain] * options.drains,
            [start_anew] * options.new_starts]
    faults = []
    while any(left):
        faults += [kind.pop() for kind in left if kind]
    return faults


def add_options(parser):
    add_transport(parser)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--stops", type=int, default=1)
    parser.add_argument("--coordinator_kills", type=int, default=3)
    parser.add_argument("--new_starts", type=int, default=1)
    parser.add_argument("--drains", type=int, default=1)
    parser.add_argument("--job", choices=DOWNPOUR, default="adagrad")


def run(checks, options):
    with tempfile.TemporaryDirectory(prefix="monsoon-") as folder, \
            new_cluster(options, "--restart_backoff=0.1") as cluster:
        job_file = pathlib.Path(folder) / "tiny.textproto"
        job_file.write_text(JOB.replace(OPTIMIZER, DOWNPOUR[options.job]))
        faults = plan(options)
        job = cluster.submit(job_file, {"stop.steps": STEPS_EACH * (len(faults) + 1)})
        watch = cluster.start_command("watch", job)
        recoveries = {}
        kills = 0
        described = None
        for number, fault in enumerate(faults):
            # It goes on by itself, and has checkpoints of this life.
            since = described or {"progress": {"step": 0}, "durability": {"generation": 0}}
            described = await_progress(
                cluster, job, f"fault {number}", lambda now, since=since:
                now["progress"]["step"] >= since["progress"]["step"] + STEPS_BETWEEN and
                now["durability"]["generation"] > since["durability"]["generation"])
            before = time.monotonic()
            fault(cluster, described, number % SHARDS)
            kills += {kill: 1, start_anew: SHARDS}.get(fault, 0)
            described = await_progress(
                cluster, job, f"restore {kills}", lambda now, kills=kills:
                now["durability"].get("restores", 0) >= kills)
            recoveries.setdefault(fault.__name__, []).append(time.monotonic() - before)
        watch.wait(timeout=10 * PATIENCE_S)
        checks.check("watch sees it all and ends with the job's code", watch.returncode == 0,
                     watch.returncode)
        described = cluster.describe(job)
        check_description(checks, described, kills, options)
        print(f"{len(faults)} faults, {described['counts']['pushes']} pushes; until all was back:")
        print_times(recoveries)


def check_description(checks, described, kills, options):
    check = checks.check
    kinds = [event["kind"] for event in described["events"]]
    check("promise", described["durability"]["promise"] == "exactly_once", described["durability"])
    check("nothing is lost", not described["durability"].get("lost"), described["durability"])
    check("each restore is told", kinds.count("shard_restored") == kills, kinds)
    check("each new life of the coordinator is told", kinds.count("coordinator_restarted") ==
          options.coordinator_kills + options.new_starts, kinds)
    check("each worker that was drained left", kinds.count("worker_left") >= options.drains,
          kinds)
    check("no worker was lost for it", "worker_lost" not in kinds and
          "session_refused" not in kinds, kinds)
    check("what was lost is sent again", described["durability"]["replayed"] > 0 or
          not options.kills, described["durability"])
    check("the job succeeds", described["state"] == "SUCCEEDED", described["reason"])
    for shard in described["shards"]:
        pushes, least, most = (described["counts"]["pushes"], shard["version_min"],
                               shard["version_max"])
        # Each push is of one of two fragments, whose stripes all have the same version.
        right = least + most == pushes if options.job == "streaming" else least == most == pushes
        check(f"ps/{shard['task']} has each push once", right, (least, most, pushes))
