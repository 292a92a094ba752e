#!/usr/bin/python3
"""Where the time of a short job goes, from `coordinator up` and from `submit --watch` until
both are over: LeNet on Fashion-MNIST for one epoch, one ps and three one-thread workers.

    tests/benchmarks/short_job.py [--rounds=7] [--epochs=1] [--before=FOLDER] [--json=FILE]

Each round starts a cluster and submits the job twice: for the first one the workers read the
data, for the second they have it. Phases end at the coordinator's events, at lines of the
workers' log, or by this program's clock; all are the machine's wall clock. `--before`: another
build's programs (in folders as in bazel-bin), whose rounds take turns with ours.
"""

import datetime
import os
import pathlib
import re
import sys
import time

import measure
from measure import Row, median_of

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from local_cluster import BIN, ROOT, LocalCluster  # noqa: E402

JOB = ROOT / "configs/job/lenet_downpour.textproto"
WORKERS = 3
QUICK_EPOCHS = 0.1
START = ("up: the coordinator answers", "up: all workers are members")
PHASES = ("submit: the job is there", "its slices and first session", "the other sessions",
          "all workers have data and network", "training", "the rest of the last evaluation",
          "sessions closed, last checkpoint", "`submit --watch` ends")


def log_time(text):
    """Seconds of the wall clock from the time that begins a line of the log."""
    return datetime.datetime.fromisoformat(text).timestamp()


def times_of(log, what):
    """When lines with `what` were logged, in order."""
    return [log_time(match.group(1)) for match in
            re.finditer(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) [^\n]*" + re.escape(what), log)]


def start_phases(cluster, began):
    """Until the cluster answered, and until all workers had joined."""
    answers = time.time()
    deadline = answers + 30
    while len(times := times_of(cluster.log_path.read_text(), "joined as worker/")) < WORKERS:
        if time.time() > deadline:
            raise RuntimeError(f"{len(times)} workers joined")
        time.sleep(0.01)
    return {START[0]: answers - began, START[1]: max(times[-1], answers) - answers}


def job_phases(cluster, epochs):
    begin = time.time()
    cluster.command("submit", str(JOB), "--watch", f"--set=stop.epochs={epochs}",
                    "--set=evaluation.every_epochs=0.5")
    end = time.time()
    job = cluster.describe("latest")
    created = job["created_ms"] / 1000

    def event(kind, which):
        times = [each["elapsed_s"] for each in job["events"] if each["kind"] == kind]
        return created + times[which]

    ready = times_of(cluster.log_path.read_text(), f"session opened: job {job['job']},")
    marks = [begin, created, event("running", 0), event("worker_joined", -1), ready[-1],
             event("finishing", 0), event("evaluation", -1), event("ended", -1), end]
    if len(ready) != WORKERS or job["state"] != "SUCCEEDED":
        raise RuntimeError(f"{job['job']} ended {job['state']} with {len(ready)} workers")
    return {name: after - before for name, before, after in zip(PHASES, marks, marks[1:])}


def one_round(bin_dir, epochs):
    began = time.time()
    with LocalCluster(ps=1, workers=WORKERS, bin_dir=bin_dir) as cluster:
        found = {("start", name): value for name, value in start_phases(cluster, began).items()}
        for label in ("first job", "second job"):
            phases = job_phases(cluster, epochs)
            found.update({(label, name): value for name, value in phases.items()})
            found[label, "all"] = sum(phases.values())
    return found


def measure_short_job(options):
    epochs = QUICK_EPOCHS if options.quick else options.epochs
    builds = {"ours": BIN, **({"before": options.before} if options.before else {})}
    rounds = {name: [] for name in builds}
    for number in range(options.rounds):
        for name in list(builds)[::1 if number % 2 == 0 else -1]:
            rounds[name].append(one_round(builds[name], epochs))
            measure.log(f"round {number + 1}, {name}: " +
                        ", ".join(f"{part} {phase} {value:.2f}" for (part, phase), value
                                  in rounds[name][-1].items()))
    rows = []
    for key in rounds["ours"][0]:
        columns = {name: [each[key] for each in found] for name, found in rounds.items()}
        reference = {"reference": f"before {median_of(columns['before'])}"} if options.before else {}
        # Without another build the ratio is the share of the whole.
        part, _ = key
        whole = columns.get("before") or [
            sum(value for (other, name), value in each.items() if other == part and name != "all")
            for each in rounds["ours"]]
        rows.append(Row(f"{part}: {key[1]}", size=f"{epochs:g} epochs", threads=f"{WORKERS} workers",
                        ours=median_of(columns["ours"]), unit="s", **reference,
                        ratios=[a / max(b, 1e-9) for a, b in zip(columns["ours"], whole)]))
    return rows


def main():
    parser = measure.options_parser(__doc__)
    parser.add_argument("--epochs", type=float, default=1)
    parser.add_argument("--before", type=pathlib.Path, help="another build's programs")
    measure.run_program(measure_short_job, parser)


if __name__ == "__main__":
    main()
