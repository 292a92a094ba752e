"""Puts back old parts of one parameter server's state folder, as a restored backup does, and an
empty folder, while its job goes on with the real programs. The newest generation that all shards
hold is waited for by name, however old the copy is; when the right parts are back the job goes on,
and every stripe has each push once.

A worker has left in order before: what it pushed must not be lost with an old part either.
"""

import os
import pathlib
import re
import shutil
import signal
import tempfile

from tests.process.deaths import DOWNPOUR, JOB, OPTIMIZER, SHARDS, await_progress, new_cluster
from tests.process.options import add_transport
from tests.tools.local_cluster import PATIENCE_S, UNREACHABLE, poll

STEPS = 60000
OWN = f"ps-0-of-{SHARDS}.g*"


def add_options(parser):
    add_transport(parser)
    parser.add_argument("--copies", type=int, default=3)


def generations_in(folder):
    """Of whole parts: the manifest is written last."""
    found = (re.search(r"\.g(\d+)\.", path.name) for path in folder.glob(OWN + ".manifest"))
    return sorted({int(match.group(1)) for match in found})


def copy_parts(source, target, generation=None):
    """True once both files of each part are there; a shard removes old ones meanwhile."""
    target.mkdir()
    try:
        for path in source.glob(OWN if generation is None else f"ps-0-of-*.g{generation}.*"):
            shutil.copy2(path, target)
    except FileNotFoundError:
        shutil.rmtree(target)
        return False
    return True


def move_parts(source, target):
    target.mkdir(exist_ok=True)
    for path in source.glob(OWN):
        shutil.move(path, target / path.name)


def folder_of(described, job):
    state = next(line.split(": ", 1)[1] for line in described["durability"]["state_dir"]
                 if line.startswith("ps/0: "))
    return next(pathlib.Path(state, "jobs").glob(f"{job}@*"))


def await_reason(cluster, job, words):
    def look():
        now = cluster.try_describe(job, may_give=(UNREACHABLE,))
        return now and (words in now["reason"] or now["state"] in ("FAILED", "SUCCEEDED")) and now

    return poll(look) or cluster.describe(job)


def put_in(cluster, described, folder, parts, kept):
    """While its process stands still; the next one finds them. Its own parts go to `kept`."""
    pid = described["shards"][0]["pid"]
    os.kill(pid, signal.SIGSTOP)
    move_parts(folder, kept)
    for path in parts.glob(OWN) if parts else ():
        shutil.copy2(path, folder)
    os.kill(pid, signal.SIGKILL)


def put_back(folder, kept):
    for path in folder.glob(OWN):
        path.unlink()
    move_parts(kept, folder)


def collect(cluster, job, folder, work, count):
    """Copies of so many generations, the newest last."""
    copies = {}

    def look():
        for generation in generations_in(folder):
            if generation not in copies and copy_parts(folder, work / str(generation), generation):
                copies[generation] = work / str(generation)
        return len(copies) >= count

    if not poll(look):
        raise RuntimeError(f"{job} writes no {count} generations\n{cluster.end_of_log(40)}")
    return copies


def progressed(cluster, job, what, since):
    return await_progress(
        cluster, job, what, lambda now:
        now["durability"]["generation"] > since["durability"]["generation"] and
        now["progress"]["step"] > since["progress"]["step"])


def run(checks, options):
    with tempfile.TemporaryDirectory(prefix="monsoon-") as temporary, \
            new_cluster(options, "--restart_backoff=0.1") as cluster:
        work = pathlib.Path(temporary)
        job_file = work / "tiny.textproto"
        job_file.write_text(JOB.replace(OPTIMIZER, DOWNPOUR["adagrad"]))
        job = cluster.submit(job_file, {"stop.steps": STEPS})
        described = await_progress(cluster, job, "its first generation",
                                   lambda now: now["durability"]["generation"] >= 1)
        folder = folder_of(described, job)
        copies = collect(cluster, job, folder, work, options.copies)
        cluster.command("drain", "worker/1", "--wait", "--timeout=30")
        described = progressed(cluster, job, "a generation after a worker left", described)
        restores = 0
        # The newest copy is the predecessor, or near it; nothing at all comes last.
        for name, parts in [*sorted(copies.items()), ("nothing", None)]:
            kept = work / "kept"
            put_in(cluster, described, folder, parts, kept)
            held = max(generations_in(kept))
            waits = await_reason(cluster, job, "waits for ps/0's state folder with generation")
            checks.check(f"{name} in place of {held} is waited for by name",
                         f"of {job}; found: {'none' if parts is None else name}" in
                         waits["reason"] and waits["state"] == "RUNNING",
                         (waits["state"], waits["reason"]))
            put_back(folder, kept)
            restores += 1
            described = await_progress(
                cluster, job, f"restore {restores}", lambda now, restores=restores:
                now["durability"].get("restores", 0) >= restores)
            described = progressed(cluster, job, f"a generation after {name}", described)
        cluster.command("watch", job, timeout=10 * PATIENCE_S)
        described = cluster.describe(job)
        checks.check("it succeeds", described["state"] == "SUCCEEDED", described["reason"])
        checks.check("nothing is lost", described["durability"]["promise"] == "exactly_once" and
                     not described["durability"].get("lost"), described["durability"])
        for shard in described["shards"]:
            versions = (shard["version_min"], shard["version_max"])
            pushes = described["counts"]["pushes"]
            checks.check(f"ps/{shard['task']} has each push once", versions == (pushes, pushes),
                         (versions, pushes))
