"""Streams whose positions the job keeps, on the built library and a cluster of real processes:
each item adds 1 at its own place of each of two shards, so that they tell how often it was trained
on, and a push that only one of them got.
Skipped unless a build is named, as test_real.py."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

import monsoon as ms
from monsoon import _library
from test_real import DEADLINE_S, HERE, client, pytestmark  # noqa: F401

ITEMS = 400
# Says each item that it has stepped on: "7", with the sidecar's process; and how it went. It reads
# a word of its input before each, where it has any.
PROGRAM = textwrap.dedent("""
    import sys, numpy, monsoon as ms
    address, job, stream, items, n_push, asks = sys.argv[1:]
    class Numbers:
        at = 0
        def __iter__(self):
            while self.at < int(items):
                self.at += 1
                yield self.at - 1
        def state_dict(self):
            return {"at": self.at}
        def load_state_dict(self, state):
            self.at = state["at"]
    model = {"w": numpy.zeros(1024, "f4")}
    try:
        with ms.join(address, job=job, model=model, optimizer=ms.SGD(1.0), max_steps=10**6,
                     n_push=int(n_push)) as job:
            for item in job.steps(Numbers(), batch=1, state=stream):
                if asks == "asks" and not sys.stdin.readline():
                    break
                gradient = numpy.zeros(1024, "f4")
                gradient[[item, 512 + item]] = -1
                job.step(gradients={"w": gradient})
                print(item, job.stats.sidecar_pid, flush=True)
        print("ended" if job.ended else "left", flush=True)
    except ms.MonsoonError as error:
        print(type(error).__name__, error, flush=True)
""")


@pytest.fixture(scope="module")
def cluster():
    before = _library.use(None)
    with ms.local_cluster(ps=2, settings=["lost_after_ms: 1500 heartbeat_ms: 100"]) as running:
        yield running
    _library.use(before)


class Program:
    def __init__(self, cluster, job, stream="part-0", items=ITEMS, n_push=1, asks=False):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, cluster.address, job, stream, str(items), str(n_push),
             "asks" if asks else ""],
            text=True, env={**os.environ, "PYTHONPATH": str(HERE.parent)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.sidecar = 0

    def go(self, steps=1):
        self.process.stdin.write("\n" * steps)
        self.process.stdin.flush()

    def await_item(self):
        words = self.process.stdout.readline().split()
        assert len(words) == 2, (words, self.process.communicate())
        self.sidecar = int(words[1])
        return int(words[0])

    def kill(self, sidecar=False):
        # The sidecar first: else it would still tell how far the program was.
        if sidecar:
            os.kill(self.sidecar, signal.SIGKILL)
        self.process.kill()
        self.process.communicate(timeout=DEADLINE_S)

    def end(self):
        out, err = self.process.communicate(timeout=DEADLINE_S)
        assert self.process.returncode == 0, err
        return out.splitlines()[-1], err


def stream_of(client, job):
    return client.describe(job)["streams"][0]


def times(client, job, items=ITEMS):
    """How often each item was trained on, by shard."""
    trained = client.load(job)["w"].reshape(2, 512)
    assert (trained[:, items:] == 0).all()
    return trained[:, :items]


@pytest.mark.parametrize("n_push", (1, 3))
def test_programs_that_are_killed_leave_no_item_out_and_none_comes_twice(cluster, client, n_push):
    job, begun = f"killed-{n_push}", 0
    for kill in range(12):
        program = Program(cluster, job, n_push=n_push)
        item = program.await_item()
        assert item >= begun, "it began before what its predecessor had pushed"
        for _ in range(1 + 2 * kill):
            begun = program.await_item() + 1 - n_push
        program.kill()
    last, err = Program(cluster, job, n_push=n_push).end()
    assert last == "ended" and "stream part-0 of " in err and "worker/" in err
    told = stream_of(client, job)
    counts = times(client, job)
    assert told["read_again"] == 0
    assert (counts == 1).all(), counts


def test_what_a_dead_sidecar_had_pushed_beyond_its_position_is_read_again_and_told(
        cluster, client):
    for kill in range(6):
        program = Program(cluster, "again")
        for _ in range(5 + 4 * kill):
            program.await_item()
        program.kill(sidecar=True)
    assert Program(cluster, "again").end()[0] == "ended"
    counts = times(client, "again")
    assert (counts >= 1).all(), counts
    told = stream_of(client, "again")
    # The last push of one that dies can be on one shard alone.
    assert int(told["read_again"]) == int((counts.max(axis=0) - 1).sum())
    events = [event["text"] for event in client.describe("again")["events"]
              if event["kind"] == "stream_read_again"]
    assert events and all("part-0" in text for text in events)


def test_a_stream_has_one_reader(cluster, client):
    first = Program(cluster, "one", asks=True)
    first.go()
    first.await_item()
    second = Program(cluster, "one")
    last, _ = second.end()
    assert last.startswith("InvalidArgument stream part-0 is being read by worker/"), last
    other = Program(cluster, "one", stream="part-1", items=3)
    assert [other.await_item() for _ in range(3)] == [0, 1, 2]
    first.process.stdin.close()
    first.process.stdin = None
    assert first.end()[0] == "left"
    other.kill()
    assert {stream["name"] for stream in client.describe("one")["streams"]} == {
        "part-0", "part-1"}


def test_a_job_that_goes_on_from_a_checkpoint_goes_on_in_its_streams(cluster, client):
    program = Program(cluster, "before", asks=True)
    program.go(25)
    for _ in range(25):
        program.await_item()
    program.process.stdin.close()
    program.process.stdin = None
    assert program.end()[0] == "left"
    client.checkpoint("before")
    client.cancel("before", wait=True)
    resumed = client.resume("before")
    last, err = Program(cluster, resumed).end()
    assert last == "ended" and "goes on where the job before" in err
    assert (times(client, resumed) == 1).all()
