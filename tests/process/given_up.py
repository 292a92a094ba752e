"""State folders that are not the right ones, and those that will not come back, with the real
programs.

The coordinator finds an older copy of its state folder, and then an empty one: it does nothing and
says what it waits for; when the right one is there again the job goes on, and every stripe has each
push once. A parameter server finds an empty folder, and `coordinator give-up` lets its job fail by
name; the shard serves the next job. At last the coordinator's folder is given up, too.
"""

import os
import pathlib
import re
import shutil
import signal
import tempfile

from tests.process.deaths import DOWNPOUR, JOB, OPTIMIZER, await_progress, new_cluster
from tests.process.old_parts import (
    add_options, await_reason, folder_of, progressed, put_in)
from tests.tools.local_cluster import PATIENCE_S, poll

STEPS = 40000
GIVE_UP = "`coordinator give-up "


class CoordinatorFolder:
    """Of a cluster whose coordinator `up` starts again."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.path = cluster.state_dir / "coordinator"

    def copy(self, target):
        pid = self.cluster.coordinator_pid()
        os.kill(pid, signal.SIGSTOP)
        shutil.copytree(self.path, target)
        os.kill(pid, signal.SIGCONT)

    def swap(self, other, kept):
        """Puts `other` in its place, or an empty one; its own goes to `kept`, if that is given."""
        pid = self.cluster.coordinator_pid()
        os.kill(pid, signal.SIGSTOP)
        if kept is None:
            shutil.rmtree(self.path)
        else:
            self.path.rename(kept)
        if other is None:
            self.path.mkdir()
        else:
            shutil.copytree(other, self.path)
        os.kill(pid, signal.SIGKILL)


def await_jobs(cluster, words):
    """What `jobs` says, once that has `words`."""
    def look():
        told = cluster.command("jobs", check=False)
        text = told.stdout + told.stderr
        return words in text and text

    return poll(look) or ""


def check_older_copy(checks, cluster, job, work, folder):
    described = progressed(cluster, job, "its second generation", cluster.describe(job))
    folder.copy(work / "copy")
    described = progressed(cluster, job, "a generation after the copy", described)
    folder.swap(work / "copy", work / "own")
    waits = await_reason(cluster, job, "waits for coordinator/0's state folder with commit")
    checks.check("an older copy of the coordinator's folder is told by name",
                 waits["state"] == "RUNNING" and "found: an older copy" in waits["reason"] and
                 GIVE_UP + "coordinator/0`" in waits["reason"], (waits["state"], waits["reason"]))
    refused = cluster.command("cancel", job, check=False)
    checks.check("nothing is done meanwhile", refused.returncode == 2 and
                 "the coordinator waits for" in refused.stderr, refused.stderr)
    folder.swap(work / "own", None)
    return progressed(cluster, job, "a generation with the right folder", described)


def check_empty(checks, cluster, job, work, folder, described):
    shutil.rmtree(work / "own")
    folder.swap(None, work / "own")
    told = await_jobs(cluster, "the coordinator waits for coordinator/0's state folder")
    checks.check("an empty one is told by name", "found: none" in told, told)
    refused = cluster.command("submit", str(work / "tiny.textproto"), "--set=stop.steps=10",
                              check=False)
    checks.check("it takes no job", refused.returncode == 2 and
                 GIVE_UP + "coordinator/0`" in refused.stderr, refused.stderr)
    folder.swap(work / "own", None)
    return progressed(cluster, job, "a generation after the empty folder", described)


def check_end(checks, cluster, job):
    cluster.command("watch", job, timeout=10 * PATIENCE_S)
    described = cluster.describe(job)
    pushes = described["counts"]["pushes"]
    versions = {(shard["version_min"], shard["version_max"]) for shard in described["shards"]}
    checks.check("each push is there once", versions == {(pushes, pushes)} and
                 not described["durability"].get("lost"), (versions, pushes))


def check_shard(checks, cluster, job_file, work):
    job = cluster.submit(job_file, {"stop.steps": STEPS})
    described = await_progress(cluster, job, "its first generation",
                               lambda now: now["durability"]["generation"] >= 1)
    put_in(cluster, described, folder_of(described, job), None, work / "parts")
    waits = await_reason(cluster, job, "waits for ps/0's state folder with generation")
    checks.check("the reason of a job that waits for a shard's folder names the command",
                 GIVE_UP + "ps/0`" in waits["reason"], waits["reason"])
    told = cluster.command("give-up", "ps/0")
    checks.check("give-up lets it fail by name",
                 re.search(rf"^{job} FAILED: ps/0 .* has given up ps/0's state folder with "
                           rf"generation \d+ of {job}; found: none", told.stdout, re.MULTILINE),
                 told.stdout)
    checks.check("describe says it", cluster.describe(job)["state"] == "FAILED")
    again = cluster.command("give-up", "ps/0", check=False)
    checks.check("no job waits for it any more", again.returncode == 2, again.stderr)


def check_given_up(checks, cluster, job_file, folder):
    folder.swap(None, None)
    await_jobs(cluster, "the coordinator waits for coordinator/0's state folder")
    told = cluster.command("give-up", "coordinator/0")
    checks.check("the coordinator's folder is given up", "no job has failed" in told.stdout,
                 told.stdout)
    again = cluster.submit(job_file, {"stop.steps": 500})
    cluster.command("watch", again, timeout=10 * PATIENCE_S)
    checks.check("the cluster serves new jobs", cluster.describe(again)["state"] == "SUCCEEDED")


def run(checks, options):
    with tempfile.TemporaryDirectory(prefix="monsoon-") as temporary, \
            new_cluster(options, "--restart_backoff=0.1", "--restart_limit=1000") as cluster:
        work = pathlib.Path(temporary)
        job_file = work / "tiny.textproto"
        job_file.write_text(JOB.replace(OPTIMIZER, DOWNPOUR["adagrad"]))
        folder = CoordinatorFolder(cluster)
        job = cluster.submit(job_file, {"stop.steps": STEPS})
        await_progress(cluster, job, "its first generation",
                       lambda now: now["durability"]["generation"] >= 1)
        described = check_older_copy(checks, cluster, job, work, folder)
        check_empty(checks, cluster, job, work, folder, described)
        check_end(checks, cluster, job)
        check_shard(checks, cluster, job_file, work)
        check_given_up(checks, cluster, job_file, folder)
