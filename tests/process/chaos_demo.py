"""Runs `coordinator chaos` against a small cluster as a user does: its plan kills a parameter
server, the coordinator and a worker once each and stops a parameter server once; the report
says so, and the job ends with nothing lost or counted twice. Before that two runs are cut
short, one by Ctrl-C and one by SIGKILL: what they had stopped goes on.
"""

import json
import pathlib
import signal
import subprocess
import tempfile

from tests.process.deaths import JOB, await_progress, new_cluster
from tests.process.options import add_transport
from tests.tools.local_cluster import PATIENCE_S, poll

# The worker's death comes last: pushes that only a dead worker could send again are lost
# with a shard that dies before two generations hold them.
PLAN = """
seed: 3
fault { task: "ps/0" kind: KILL await_checkpoint: true }
fault { task: "coordinator/0" kind: KILL from_s: 4 }
fault { task: "ps/1" kind: STOP lasts_s { min: 1 max: 1.5 } from_s: 6 }
fault { task: "worker/*" kind: KILL from_s: 9 }
"""
CUT_PLAN = 'fault { task: "ps/1" kind: STOP lasts_s { min: 300 } }'
# Pushes of one worker that are on their way at one time, and to spare.
MOST_UNDER_WAY = 4
# The job's training time, whatever the machine does meanwhile; all faults come before.
TRAINING_S = 20


def state_of(pid):
    """As `ps` shows it: "T" is stopped."""
    text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return text[text.rindex(")") + 2]


def await_state(pid, stopped):
    """Whether it came to that."""
    return poll(lambda: (state_of(pid) == "T") == stopped, every_s=0.01)


def check_cut(checks, cluster, folder, pid, number):
    """A run that ends by a signal while it has stopped ps/1, which is `pid`."""
    plan = pathlib.Path(folder) / "cut.textproto"
    plan.write_text(CUT_PLAN)
    run = cluster.start_command("chaos", f"--plan={plan}")
    name = signal.Signals(number).name
    checks.check(f"ps/1 is stopped ({name})", await_state(pid, stopped=True), state_of(pid))
    run.send_signal(number)
    code = run.wait(timeout=PATIENCE_S)
    checks.check(f"the run ends by {name}", code == (130 if number == signal.SIGINT else -number),
                 code)
    checks.check(f"ps/1 goes on after {name}", await_state(pid, stopped=False), state_of(pid))


def check_report(checks, result, before, described):
    check = checks.check
    check("the exit code is 0", result.returncode == 0, (result.returncode, result.stderr))
    report = json.loads(result.stdout)
    check("the report is the job's", report["job"] == described["job"] and
          report["state"] == "SUCCEEDED" and report["error"] is None, report)
    check("all was done", report["planned"] == len(report["faults"]) == 4, report["faults"])
    check("each kind", report["by_kind"] == {"KILL": 3, "TERMINATE": 0, "STOP": 1, "SLOW": 0},
          report["by_kind"])
    faults = {(fault["task"].split("/")[0], fault["kind"]): fault for fault in report["faults"]}
    check("each once", sorted(faults) == [("coordinator", "KILL"), ("ps", "KILL"), ("ps", "STOP"),
                                          ("worker", "KILL")], report["faults"])
    check("the pid was the task's", faults["ps", "KILL"]["pid"] == before["shards"][0]["pid"],
          report["faults"])
    check("all are back", all(fault["back_after_s"] is not None for fault in report["faults"]),
          report["faults"])
    check("the stop had its length", 1 <= faults["ps", "STOP"]["seconds"] < 1.8, report["faults"])
    check("the rest waited for their time", all(
        faults[role, kind]["at_s"] >= at for role, kind, at in (
            ("coordinator", "KILL", 4), ("ps", "STOP", 6), ("worker", "KILL", 9))),
        report["faults"])
    check("promise and losses are the job's",
          report["durability"]["promise"] == "exactly_once" and report["durability"]["lost"] == [],
          report["durability"])
    check("the counts are the job's", report["counts"]["after"]["pushes"] ==
          described["counts"]["pushes"] > report["counts"]["before"]["pushes"], report["counts"])
    check("the dead shard was sent again what it lacked",
          report["counts"]["after"]["replayed"] > 0, report["counts"])
    for text in ("KILL ps/0 (pid", "STOP ps/1 (pid", "KILL coordinator/0 (pid", " is back after "):
        check(f"the messages say {text!r}", text in result.stderr, result.stderr)
    print(f"{report['elapsed_s']:.1f} s; until they were back: " + ", ".join(
        f"{fault['task']} {fault['kind']} {fault['back_after_s']:.1f} s"
        for fault in report["faults"]))


def check_job(checks, described):
    check = checks.check
    kinds = [event["kind"] for event in described["events"]]
    check("the job succeeds", described["state"] == "SUCCEEDED", described["reason"])
    check("nothing is lost", not described["durability"].get("lost"), described["durability"])
    for kind in ("shard_restored", "coordinator_restarted", "worker_lost", "worker_rejoined"):
        check(f"{kind} is told once", kinds.count(kind) == 1, kinds)
    # What the dead worker had pushed since its last report is on the shards, and in no count;
    # its last pushes may have come to one of them only.
    versions = [shard[end] for shard in described["shards"]
                for end in ("version_min", "version_max")]
    check("the shards have each push that was counted", min(versions) >=
          described["counts"]["pushes"], (versions, described["counts"]["pushes"]))
    check("and none twice", max(versions) - min(versions) <= MOST_UNDER_WAY, versions)


def check_refusal(checks, cluster, folder):
    """A plan for a task that the cluster does not have."""
    plan = pathlib.Path(folder) / "wrong.textproto"
    plan.write_text('fault { task: "ps/9" kind: KILL }')
    result = cluster.command("chaos", f"--plan={plan}", check=False)
    checks.check("a task that is not there is refused",
                 result.returncode == 2 and '"ps/9": the cluster has no such task' in result.stderr
                 and result.stdout == "", (result.returncode, result.stderr))


def add_options(parser):
    add_transport(parser)


def run(checks, options):
    with tempfile.TemporaryDirectory(prefix="monsoon-") as folder, \
            new_cluster(options, "--restart_backoff=0.1") as cluster:
        job_file = pathlib.Path(folder) / "tiny.textproto"
        job_file.write_text(JOB)
        plan = pathlib.Path(folder) / "plan.textproto"
        plan.write_text(PLAN)
        job = cluster.submit(job_file, {"stop.seconds": TRAINING_S})
        before = await_progress(cluster, job, "its first steps",
                                lambda now: now["state"] == "RUNNING")
        check_refusal(checks, cluster, folder)
        for number in (signal.SIGINT, signal.SIGKILL):
            check_cut(checks, cluster, folder, before["shards"][1]["pid"], number)
        try:
            result = cluster.command("chaos", f"--plan={plan}", f"--job={job}", "--json",
                                     check=False, timeout=2 * PATIENCE_S)
        except subprocess.TimeoutExpired as late:
            checks.check("the run ends", False, late)
            return
        described = cluster.describe(job)
        check_report(checks, result, before, described)
        check_job(checks, described)
