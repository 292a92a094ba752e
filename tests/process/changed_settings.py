"""Changes settings of jobs that train (`coordinator set`), while a parameter server and the
coordinator are killed: what shards, workers and `describe` have recorded must be what was set.

One job waits for slow workers and pushes gradients: its rate, its bound and its number of workers
change. One averages in rounds: its rate, its local steps and its quorum change, and the latter gets
it going again while a worker stands still.
"""

import os
import pathlib
import signal
import tempfile

from tests.tools.local_cluster import UNREACHABLE, LocalCluster, poll
from tests.tools.tiny_job import tiny_job

SHARDS, WORKERS = 2, 3
LATER_BOUND = 8
STEPS, LATER_STEPS = 4, 16
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
USAGE = 2
BOUNDED = tiny_job(units=40, more="""
batch_size: 20
stripe_kib: 4
downpour {
  overlap: NONE
  staleness_bound: 1
  workers: 2
  optimizer { adagrad { rate: 0.01 } }
}
stop { steps: 10000000 }
""")
ROUNDS = tiny_job(units=40, more=f"""
batch_size: 20
stripe_kib: 4
downpour {{
  local {{ steps: {STEPS} inner {{ sgd {{ rate: 0.01 }} }} }}
  rounds {{ }}
  optimizer {{ nesterov {{ rate: 0.7 momentum: 0.9 }} }}
}}
stop {{ steps: 10000000 }}
""")


def await_job(cluster, job, holds):
    """The first description for which `holds`; None: there was none."""
    def look():
        now = cluster.try_describe(job, may_give=(UNREACHABLE,))
        there = now and (now["state"] in ENDED or
                         len(now["shards"]) == SHARDS and holds(now))
        return now if there else None

    found = poll(look, every_s=0.05)
    return found if found and found["state"] not in ENDED else None


def rounds(described):
    return min(shard["version_min"] for shard in described["shards"])


def running(described):
    return [worker for worker in described["workers"] if worker["state"] == "RUNNING"]


def have_taken(described, revision, workers):
    """All shards and so many workers go by it."""
    return (described.get("settings", {}).get("revision") == revision and
            all(shard["settings_revision"] == revision for shard in described["shards"]) and
            [worker["settings_revision"] for worker in running(described)] ==
            [revision] * workers)


def check_set(checks, cluster, job, revision, workers, *settings):
    told = cluster.command("set", job, *settings).stdout
    checks.check(f"{job}: each change is told of", len(told.splitlines()) == len(settings), told)
    taken = await_job(cluster, job, lambda now: have_taken(now, revision, workers))
    checks.check(f"{job}: shards and workers take {' '.join(settings)}", taken,
                 cluster.describe(job))
    return taken or cluster.describe(job)


def check_refused(checks, cluster, job, setting, says):
    answer = cluster.command("set", job, setting, check=False)
    checks.check(f"{job}: {setting} is refused by name",
                 answer.returncode == USAGE and says in answer.stderr,
                 (answer.returncode, answer.stderr))


def kill_and_await(checks, cluster, job, pid, revision, workers, lives):
    """One that is killed is started again, and all go by the same settings as before."""
    begun = cluster.describe(job)
    os.kill(pid, signal.SIGKILL)
    there = await_job(cluster, job, lambda now: (
        lives(now) and have_taken(now, revision, workers) and rounds(now) > rounds(begun) + 20))
    checks.check(f"{job}: revision {revision} survives a kill", there, cluster.try_describe(job))


def check_kills(checks, cluster, job, revision, workers):
    shard = cluster.describe(job)["shards"][0]
    kill_and_await(checks, cluster, job, shard["pid"], revision, workers,
                   lambda now: now["shards"][0]["epoch"] != shard["epoch"])
    coordinator = cluster.coordinator_pid()
    kill_and_await(checks, cluster, job, coordinator, revision, workers,
                   lambda now: cluster.coordinator_pid() != coordinator)


def widest(described):
    clocks = [worker["clock"] for worker in running(described) if worker.get("clock") is not None]
    return max(clocks) - min(clocks) if len(clocks) == WORKERS else 0


def check_bounded(checks, cluster, folder):
    job_file = folder / "bounded.textproto"
    job_file.write_text(BOUNDED)
    job = cluster.submit(job_file)
    await_job(cluster, job, lambda now: rounds(now) >= 50)
    check_refused(checks, cluster, job, "seed=7", "seed is not one of those")
    check_refused(checks, cluster, job, "downpour.optimizer.sgd.rate=1", "no downpour.optimizer.sgd")
    check_refused(checks, cluster, job, "downpour.workers=9", "workers")
    check_refused(checks, cluster, job, "downpour.workers=1", "drain worker/1")
    taken = check_set(checks, cluster, job, 1, WORKERS, "downpour.optimizer.adagrad.rate=0.005",
                      f"downpour.staleness_bound={LATER_BOUND}", f"downpour.workers={WORKERS}")
    checks.check(f"{job}: shards tell from which push on",
                 all(shard["settings_from"] >= 50 for shard in taken["shards"]), taken["shards"])
    check_kills(checks, cluster, job, 1, WORKERS)
    # One that stands still holds the others up after as many pushes as the new bound says.
    stopped = running(cluster.describe(job))[0]["pid"]
    os.kill(stopped, signal.SIGSTOP)
    waits = await_job(cluster, job, lambda now: widest(now) == LATER_BOUND + 1)
    os.kill(stopped, signal.SIGCONT)
    checks.check(f"{job}: the bound is the one that was set", waits,
                 cluster.describe(job)["workers"])
    cluster.command("cancel", job, "--wait")
    check_refused(checks, cluster, job, "downpour.staleness_bound=3", "does not train any more")


def steps_a_push(begun, now):
    pushes = now["counts"]["pushes"] - begun["counts"]["pushes"]
    return (now["counts"]["steps"] - begun["counts"]["steps"]) / max(1, pushes)


def are_later_steps(mean):
    """A difference that is under way has steps that no push has; one of a new session is short."""
    return LATER_STEPS / 2 < mean < LATER_STEPS * 1.25


def check_rounds(checks, cluster, folder):
    job_file = folder / "rounds.textproto"
    job_file.write_text(ROUNDS)
    job = cluster.submit(job_file)
    begun = await_job(cluster, job, lambda now: rounds(now) >= 20 and len(running(now)) == WORKERS)
    checks.check(f"{job}: it trains", begun, cluster.describe(job))
    stopped = running(cluster.describe(job))[0]["pid"]
    os.kill(stopped, signal.SIGSTOP)
    still = []

    def stands_still():
        still.append(rounds(cluster.describe(job)))
        return len(still) > 10 and still[-1] == still[-11]

    checks.check(f"{job}: all wait for the one that stands still", poll(stands_still))
    cluster.command("set", job, "downpour.rounds.quorum=2")
    on = await_job(cluster, job, lambda now: rounds(now) >= still[-1] + 10)
    os.kill(stopped, signal.SIGCONT)
    checks.check(f"{job}: with a quorum they go on without it", on, cluster.describe(job))
    taken = check_set(checks, cluster, job, 2, WORKERS, "downpour.optimizer.nesterov.rate=0.35",
                      f"downpour.local.steps={LATER_STEPS}")
    one = taken["settings"]["from_round"]
    checks.check(f"{job}: all shards change at one round", one > still[-1] and
                 all(shard["settings_from"] == one for shard in taken["shards"]), taken["shards"])
    check_kills(checks, cluster, job, 2, WORKERS)
    before = cluster.describe(job)
    after = await_job(cluster, job, lambda now: rounds(now) >= rounds(before) + 50)
    checks.check(f"{job}: workers take as many steps as were set", after and
                 are_later_steps(steps_a_push(before, after)),
                 after and steps_a_push(before, after))
    cluster.command("checkpoint", job)
    cluster.command("cancel", job, "--wait")
    resumed = cluster.submit(None, flags=[f"--resume={job}", "--name=more"])
    await_job(cluster, resumed, lambda now: now["progress"]["step"] > begun["progress"]["step"])
    begun = await_job(cluster, resumed, lambda now: now["counts"]["pushes"] > WORKERS)
    more = await_job(cluster, resumed,
                     lambda now: now["counts"]["pushes"] > begun["counts"]["pushes"] + 60)
    checks.check(f"{resumed}: what goes on from it has its settings", more and
                 are_later_steps(steps_a_push(begun, more)),
                 more and steps_a_push(begun, more))
    cluster.command("cancel", resumed, "--wait")


def run(checks, options):
    with tempfile.TemporaryDirectory(prefix="monsoon-") as folder, \
            LocalCluster(ps=SHARDS, workers=WORKERS, bin_dir=options.bin,
                         extra_flags=("--restart_backoff=0.1",),
                         # One that stands still is no lost one.
                         settings=["heartbeat_ms: 100", "lost_after_ms: 60000"]) as cluster:
        check_bounded(checks, cluster, pathlib.Path(folder))
        check_rounds(checks, cluster, pathlib.Path(folder))
