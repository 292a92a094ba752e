"""Runs `coordinator compare` against a small cluster as a user does: three modes with two seeds
each, whose figures must be those that `describe` tells of the jobs; a worker that is killed; Ctrl-C,
which cancels the job that runs and writes what there is; rates; and mistakes, which are refused
before anything runs.
"""

import json
import pathlib
import signal
import statistics
import tempfile
import xml.etree.ElementTree

from tests.tools.local_cluster import PATIENCE_S, LocalCluster, poll
from tests.tools.tiny_job import tiny_job

JOB = tiny_job(units=100, more="""
name: "tiny"
batch_size: 10
downpour { optimizer { adagrad { rate: 0.02 } } }
stop { epochs: 10 }
evaluation { every_epochs: 2 }
""")
UNTESTED = JOB.replace("evaluation { every_epochs: 2 }", "").replace("test {", "# test {", 1)
MODES = ("single", "ssp:3", "local:20")
SEEDS = (5, 6)  # of the job, and the next
EXAMPLES = 4000
EPOCHS = 10
VICTIM = "worker/1"
KILL_EPOCHS = 20
SHARE = 0.3
FLAGS = ["--restart_backoff=0.1"]
# What a run's figures are called there.
DESCRIBED = {
    "final_test_accuracy": lambda job: job["final"]["test_accuracy"],
    "final_loss": lambda job: job["final"]["loss"],
    "training_loss": lambda job: job["progress"]["loss"],
    "elapsed_s": lambda job: job["elapsed_s"],
    "examples": lambda job: job["progress"]["examples"],
    "steps": lambda job: job["counts"]["steps"],
    "bytes_fetched": lambda job: job["counts"]["bytes_fetched"],
    "bytes_pushed": lambda job: job["counts"]["bytes_pushed"],
    "staleness_p50": lambda job: job["staleness"]["p50"],
    "staleness_p99": lambda job: job["staleness"]["p99"],
    "staleness_max": lambda job: job["staleness"]["max"],
}
# Of these the median is told of runs without a death; the others may be missing.
ALWAYS = ("final_test_accuracy", "final_loss", "elapsed_s", "examples", "steps")


def picture(path):
    """The texts of the picture, which has to be XML."""
    root = xml.etree.ElementTree.parse(path).getroot()
    return [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]


def reached(described, accuracy):
    """(seconds, samples) until a test had that."""
    return next(((test["elapsed_s"], round(test["epoch"] * described["data"]["examples"]))
                 for test in described["evaluations"] if test["test_accuracy"] >= accuracy),
                (None, None))


def check_run(checks, cluster, mode, run, accuracy):
    check, name = checks.check, run["job"]
    described = cluster.describe(name)
    check(f"{name} has succeeded", run["state"] == described["state"] == "SUCCEEDED", run)
    check(f"{name} has its seed", described["seed"] == run["seed"], described["seed"])
    for figure, told in DESCRIBED.items():
        check(f"{name}: {figure}", run[figure] == told(described),
              (run[figure], told(described)))
    check(f"{name}: when it was good enough",
          (run["to_s"], run["to_examples"]) == reached(described, accuracy), run)
    check(f"{name}: its curve", run["curve"] == [
        [test["elapsed_s"], test["test_accuracy"]] for test in described["evaluations"]],
        run["curve"])
    check(f"{name}: each sample counts once", run["examples"] == EXAMPLES * EPOCHS,
          run["examples"])
    workers = len(described["workers"])
    check(f"{name}: who took part", (workers == 1) == (mode == "single"), described["workers"])
    waited = described["counts"]["bound_wait_ms"] if mode == "ssp:3" else None
    check(f"{name}: how long for slower ones", run["bound_wait_ms"] == waited, run)
    local = described["outer_optimizer"]
    check(f"{name}: local steps", (local is not None) == (mode == "local:20"), local)


def check_death(checks, cluster, run):
    check, death = checks.check, run["death"]
    name = death["job"]
    described = cluster.describe(name)
    kinds = [event["kind"] for event in described["events"]]
    check(f"{name} has succeeded", death["state"] == described["state"] == "SUCCEEDED", death)
    check(f"{name}: the worker was lost", kinds.count("worker_lost") == 1, kinds)
    check(f"{name}: when", death["at_s"] > 0 and 0 < death["back_after_s"] < PATIENCE_S, death)
    check(f"{name}: whose process it was", death["pid"] > 0, death)
    check(f"{name}: samples again", run["death_examples_again"] ==
          described["progress"]["examples"] - EXAMPLES * KILL_EPOCHS >= 0, run)
    check(f"{name}: its time", abs(run["death_extra_s"] - (
        described["elapsed_s"] - run["elapsed_s"])) < 1e-6, run)


def check_medians(checks, mode):
    for figure in ALWAYS:
        wanted = statistics.median(run[figure] for run in mode["runs"])
        checks.check(f"{mode['mode']}: the median of {figure}",
                     abs(mode["median"][figure] - wanted) < 1e-9, (mode["median"], wanted))


def check_kill(checks, cluster, job_file, out):
    """Of two modes one has no use for the task that is killed."""
    check = checks.check
    result = cluster.command(
        "compare", str(job_file), "--modes=downpour,single", "--seeds=1",
        f"--kill={VICTIM}@{SHARE}", f"--out={out}", "--keep", f"--set=stop.epochs={KILL_EPOCHS}",
        check=False, timeout=2 * PATIENCE_S)
    check("kill: the exit code is 0", result.returncode == 0, (result.returncode, result.stderr))
    print(result.stdout)
    downpour, single = json.loads((out / "compare.json").read_text())["modes"]
    check_death(checks, cluster, downpour["runs"][0])
    check("kill: not where the task takes no part", single["runs"][0]["death"] is None and
          f"{VICTIM} takes no part, and is not killed" in single["notes"], single)
    delete_all(cluster)


def delete_all(cluster):
    for job in jobs_left(cluster):
        cluster.command("delete", job)


def check_modes(checks, cluster, job_file, out):
    """Three modes, two seeds; all jobs stay for describe."""
    check, accuracy = checks.check, 0.5
    result = cluster.command(
        "compare", str(job_file), f"--modes={','.join(MODES)}", f"--seeds={len(SEEDS)}",
        f"--to={accuracy}", f"--out={out}", "--keep", check=False, timeout=2 * PATIENCE_S)
    check("compare: the exit code is 0", result.returncode == 0,
          (result.returncode, result.stderr, cluster.end_of_log()))
    print(result.stdout)
    report = json.loads((out / "compare.json").read_text())
    check("compare: all was run", report["complete"] and report["seeds"] == list(SEEDS), report)
    check("compare: the modes", [mode["mode"] for mode in report["modes"]] == list(MODES),
          report["modes"])
    for mode in report["modes"]:
        check(f"{mode['mode']}: the seeds", [run["seed"] for run in mode["runs"]] == list(SEEDS),
              mode)
        for run in mode["runs"]:
            check_run(checks, cluster, mode["mode"], run, accuracy)
            row = [mode["mode"], str(run["seed"]), f"{run['final_test_accuracy']:.4f}"]
            check(f"{run['job']}: its line of the table", row in [
                line.split()[:3] for line in result.stdout.splitlines()], result.stdout)
        check_medians(checks, mode)
    texts = picture(out / "compare.svg")
    check("the picture has a legend", all(any(text.startswith(f"{mode}  ") for text in texts)
                                          for mode in MODES), texts)
    delete_all(cluster)


def jobs_left(cluster):
    return [job["job"] for job in json.loads(cluster.command("jobs", "--json").stdout)["jobs"]]


def check_interrupt(checks, cluster, job_file, out):
    """The second of two runs has no end."""
    check = checks.check
    run = cluster.start_command("compare", str(job_file), "--modes=sandblaster,downpour",
                                "--seeds=1", f"--out={out}", "--set=stop.epochs=3000")
    # Sandblaster ends by itself.
    poll(lambda: [job for job in jobs_left(cluster) if "downpour" in job])
    run.send_signal(signal.SIGINT)
    code = run.wait(timeout=PATIENCE_S)
    check("Ctrl-C: the exit code is 130", code == 130, code)
    report = json.loads((out / "compare.json").read_text())
    states = {mode["mode"]: [run["state"] for run in mode["runs"]] for mode in report["modes"]}
    check("Ctrl-C: what there is was written", not report["complete"] and
          states == {"sandblaster": ["SUCCEEDED"], "downpour": ["CANCELLED"]}, states)
    check("Ctrl-C: no job is left", jobs_left(cluster) == [], jobs_left(cluster))


def check_rates(checks, cluster, job_file):
    result = cluster.command("compare", str(job_file), "--modes=downpour,sandblaster", "--seeds=1",
                             "--rates=0.02,1e-6", "--set=stop.epochs=2", "--json", check=False,
                             timeout=2 * PATIENCE_S)
    checks.check("rates: the exit code is 0", result.returncode == 0, result.stderr)
    downpour, batch = json.loads(result.stdout)["modes"]
    checks.check("rates: the one that learns is taken", downpour["rate"] == 0.02 and
                 [tried["rate"] for tried in downpour["grid"]] == [0.02, 1e-6], downpour)
    checks.check("rates: in batch they mean nothing, which is said", batch["rate"] is None and
                 batch["grid"] == [] and any("--rates" in note for note in batch["notes"]), batch)
    checks.check("rates: no job is left", jobs_left(cluster) == [], jobs_left(cluster))


def check_mistakes(checks, cluster, job_file, untested):
    for what, arguments, wanted in (
            ("no modes", [job_file], "--modes is missing"),
            ("an unknown mode", [job_file, "--modes=singel"], 'did you mean "single"?'),
            ("a number that is missing", [job_file, "--modes=ssp"], "its S is missing"),
            ("seeds", [job_file, "--modes=single", "--seeds=0"], "--seeds: 0 is outside"),
            ("per cent", [job_file, "--modes=single", "--to=88"], "write --to=0.88"),
            ("a flag", [job_file, "--modes=single", "--mode=x"], "--mode"),
            ("rates", [job_file, "--modes=single", "--rates=fast"], "--rates: \"fast\""),
            ("nobody to kill", [job_file, "--modes=single", "--kill=worker/9@0.3"],
             "--kill: \"worker/9\""),
            ("no share", [job_file, "--modes=single", "--kill=worker/0"], "--kill: \"worker/0\""),
            ("no test set", [untested, "--modes=single", "--to=0.9"], "--to: the job has no test"),
            ("no file", ["/nowhere", "--modes=single"], "/nowhere"),
            ("what all modes lack", [job_file, "--modes=local:5,diloco:5",
                                     "--set=downpour.optimizer.damping=1"], "diloco:5: downpour"),
    ):
        result = cluster.command("compare", *map(str, arguments), check=False)
        checks.check(f"{what}: refused", result.returncode == 2 and wanted in result.stderr and
                     result.stdout == "", (result.returncode, result.stderr))
    checks.check("nothing ran", jobs_left(cluster) == [], jobs_left(cluster))


def check_untested(checks, cluster, untested, out):
    """A job without a test set has its loss, of which the curve is what was seen."""
    result = cluster.command("compare", str(untested), "--modes=downpour", "--seeds=1",
                             f"--out={out}", check=False, timeout=PATIENCE_S)
    checks.check("without a test set: exit code 0", result.returncode == 0, result.stderr)
    run, = json.loads((out / "compare.json").read_text())["modes"][0]["runs"]
    checks.check("without a test set: the loss", run["training_loss"] > 0 and run["curve"] and
                 run["final_test_accuracy"] is None and "train loss" in result.stdout, run)
    picture(out / "compare.svg")


def run(checks, options):
    with tempfile.TemporaryDirectory(prefix="monsoon-") as name, \
            LocalCluster(ps=1, workers=2, bin_dir=options.bin, settings=["lost_after_ms: 1500"],
                         extra_flags=FLAGS) as cluster:
        folder = pathlib.Path(name)
        job_file, untested = folder / "tiny.textproto", folder / "untested.textproto"
        job_file.write_text(JOB)
        untested.write_text(UNTESTED)
        check_mistakes(checks, cluster, job_file, untested)
        check_modes(checks, cluster, job_file, folder / "compared")
        check_kill(checks, cluster, job_file, folder / "killed")
        check_rates(checks, cluster, job_file)
        check_untested(checks, cluster, untested, folder / "untested")
        check_interrupt(checks, cluster, job_file, folder / "cut")
