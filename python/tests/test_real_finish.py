"""Programs that end their job, on the built library and a cluster of real processes. Skipped
unless a build is named, as test_real.py."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import textwrap
import time

import numpy
import pytest

import monsoon as ms
from monsoon import _library
from test_real import DEADLINE_S, HERE, client, pytestmark  # noqa: F401

# A batch a line of its input, which it repeats once it has the batch: "step", "finish", "die" (once
# the job has ended). At the end of its input it steps, and says nothing.
PROGRAM = textwrap.dedent("""
    import os, signal, sys, numpy, monsoon as ms
    model = {"w": numpy.zeros(5000, "f4")}
    evaluate = (lambda model: {"loss": 1.0}) if "evaluate" in sys.argv else None
    local = "local" in sys.argv or "rounds" in sys.argv
    rounds = ms.Rounds() if "rounds" in sys.argv else None
    optimizer = ms.Local(None, every=10, rounds=rounds) if local else ms.SGD(1.0)
    job = ms.join(sys.argv[1], job=sys.argv[2], model=model, optimizer=optimizer, max_steps=10**8,
                  examples=400, batch=4, evaluate=evaluate)
    with job:
        print("in", flush=True)
        for _ in job.blocks():
            word = sys.stdin.readline().strip()
            if word:
                print(word, flush=True)
            if word in ("finish", "die"):
                job.finish()
                if word == "die":
                    os.kill(os.getpid(), signal.SIGKILL)
            elif local:
                model["w"] += 1
                job.step()
            else:
                job.step(gradients={"w": numpy.full(5000, -1, "f4")})
    print("ended" if job.ended else "not ended", job.stats.steps, job.stats.sessions,
          job.stats.worker, model["w"][0], flush=True)
""")


@pytest.fixture(scope="module")
def cluster():
    """So slow to lose a session that a busy machine does not."""
    before = _library.use(None)
    with ms.local_cluster(ps=2, settings=["lost_after_ms: 6000 heartbeat_ms: 200"]) as running:
        yield running
    _library.use(before)


class Program:
    def __init__(self, cluster, *arguments):
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, cluster.address, *arguments], text=True,
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)

    def await_line(self, line="in"):
        said = self.process.stdout.readline()
        assert said == line + "\n", said or self.process.communicate()[1]

    def tell(self, *words):
        self.process.stdin.write("".join(word + "\n" for word in words))
        self.process.stdin.flush()

    def end(self):
        """Its last line's words, once it has ended by itself; from now on it steps."""
        out, err = self.process.communicate(timeout=DEADLINE_S)
        assert self.process.returncode == 0, err
        return out.splitlines()[-1].split()


@pytest.fixture
def start(cluster):
    programs = []

    def start_one(*arguments):
        programs.append(Program(cluster, *arguments))
        return programs[-1]

    yield start_one
    for program in programs:
        program.process.kill()
        program.process.communicate()


def ended(client, name):  # noqa: F811
    """What is told of the job once it has ended."""
    told = list(client.watch(name))[-1]
    assert told["state"] == "SUCCEEDED", told["reason"]
    assert re.fullmatch(r"ended by worker/\d+ after \d+\.\d\d epochs, \d+ steps", told["reason"])
    return client.describe(name)


def await_event(client, name, kind):  # noqa: F811
    deadline = time.monotonic() + DEADLINE_S
    while kind not in [event["kind"] for event in client.describe(name)["events"]]:
        assert time.monotonic() < deadline, client.describe(name)
        time.sleep(0.02)


def coordinator_pid(cluster):
    """The process that `up` has for its coordinator now; None: there is none."""
    up = cluster._stop.peek()[2][0].pid
    for child in pathlib.Path(f"/proc/{up}/task/{up}/children").read_text().split():
        words = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        if words[0].endswith(b"coordinator") and b"serve" in words:
            return int(child)
    return None


def holds_a_block(program):
    """It is not done before the program's input ends."""
    program.await_line()
    program.tell("step")
    program.await_line("step")


@pytest.mark.parametrize("n_push, breaks", [(1, True), (3, False)])
def test_one_program_ends_its_job(cluster, client, n_push, breaks):  # noqa: F811
    model, seen = {"w": numpy.zeros(40, "f4")}, []
    name = f"one{n_push}"
    with ms.join(cluster.address, job=name, model=model, optimizer=ms.SGD(1.0), epochs=1000,
                 n_push=n_push, evaluate=lambda m: seen.append(m["w"].copy()) or 0.5) as job:
        for steps, _ in enumerate(job.blocks(400, batch=4), 1):
            job.step(gradients={"w": numpy.full(40, -1, "f4")})
            if steps == 8:
                job.finish()
                assert job.ended and (model["w"] == 8).all()
                if breaks:
                    break
        job.step(gradients={"w": numpy.full(40, -1, "f4")})
        job.finish()
    assert steps == 8 and len(seen) == 1 and (seen[0] == 8).all()
    told = ended(client, name)
    assert told["reason"].startswith(f"ended by worker/{job.stats.worker} after")
    assert told["reason"].endswith(", 8 steps") and len(told["evaluations"]) == 1
    assert (client.load(name)["w"] == 8).all()


@pytest.mark.parametrize("rounds", [None, ms.Rounds()])
def test_the_rest_of_a_difference_counts(cluster, client, rounds):  # noqa: F811
    model = {"w": numpy.zeros(40, "f4")}
    name = f"rest{rounds is not None}"
    with ms.join(cluster.address, job=name, model=model, epochs=1000,
                 optimizer=ms.Local(None, every=10, rounds=rounds)) as job:
        for steps, _ in enumerate(job.blocks(400, batch=4), 1):
            model["w"] += 1
            job.step()
            if steps == 27:
                job.finish()
    assert steps == 27 and (model["w"] == 27).all()
    ended(client, name)
    assert (client.load(name)["w"] == 27).all()


def test_a_helper_process_that_dies_then_is_replaced(cluster, client):  # noqa: F811
    model = {"w": numpy.zeros(40, "f4")}
    with ms.join(cluster.address, job="helper", model=model, optimizer=ms.SGD(1.0), epochs=1000,
                 overlap=False) as job:
        for steps, _ in enumerate(job.blocks(400, batch=4), 1):
            job.step(gradients={"w": numpy.full(40, -1, "f4")})
            if steps == 8:
                os.kill(job.stats.sidecar_pid, signal.SIGKILL)
                job.finish()
    assert job.ended and steps == 8 and job.stats.sessions >= 2
    ended(client, "helper")
    assert (client.load("helper")["w"] == 8).all() and (model["w"] == 8).all()


def test_within_an_evaluation(cluster, client):  # noqa: F811
    model, seen = {"w": numpy.zeros(40, "f4")}, []

    def evaluate(_):
        seen.append(job.ended)
        if len(seen) == 2:
            job.finish()
        return {"loss": 1.0}

    job = ms.join(cluster.address, job="within", model=model, optimizer=ms.SGD(1.0), epochs=100000,
                  evaluate=evaluate, evaluate_every=0.1)
    with job:
        for _ in job.blocks(400, batch=4):
            job.step(gradients={"w": numpy.full(40, -1, "f4")})
    assert job.ended and len(ended(client, "within")["evaluations"]) == len(seen) >= 3


@pytest.mark.parametrize("mode", ["gradients", "local", "rounds"])
def test_one_of_three_ends_it_for_all(start, client, mode):  # noqa: F811
    name = f"three-{mode}"
    programs = [start(name, "evaluate", mode) for _ in range(3)]
    for program in programs:
        program.await_line()
    for other in programs[1:]:
        other.process.stdin.close()  # they train on
        other.process.stdin = None
    programs[0].tell(*["step"] * 33, "finish")
    ends = [program.end() for program in programs]
    assert [words[0] for words in ends] == ["ended"] * 3 and int(ends[0][1]) == 33
    told = ended(client, name)
    assert told["reason"].startswith(f"ended by worker/{ends[0][3]} after")
    assert len(told["evaluations"]) == 1
    final = client.load(name)["w"]
    assert (final == final[0]).all() and {numpy.float32(words[4]) for words in ends} == {final[0]}
    steps = sum(int(words[1]) for words in ends)
    if mode == "rounds":
        assert 0 < final[0] <= steps  # means of differences
    else:
        # A session that was lost may have pushed what its program was told does not count.
        assert final[0] == steps or (final[0] > steps and {words[2] for words in ends} != {"1"})


def test_a_program_may_die_once_it_has_ended_its_job(start, client):  # noqa: F811
    one, other = start("dies"), start("dies")
    one.await_line()
    one.tell("step", "die")
    for line in ("step", "die"):
        one.await_line(line)
    assert other.end()[0] == "ended"
    assert one.process.wait(timeout=DEADLINE_S) == -signal.SIGKILL
    ended(client, "dies")


def test_or_once_the_coordinator_has_heard_it(start, client):  # noqa: F811
    one, other = start("killed", "evaluate"), start("killed", "evaluate")
    holds_a_block(other)
    one.await_line()
    one.tell("step", "step", "finish")
    await_event(client, "killed", "finishing")
    one.process.kill()
    assert client.describe("killed")["state"] not in ("SUCCEEDED", "FAILED")
    assert other.end()[0] == "ended"
    assert len(ended(client, "killed")["evaluations"]) == 1


@pytest.mark.parametrize("heard", [False, True])
def test_a_coordinator_that_is_started_anew_knows_it(start, cluster, client, heard):  # noqa: F811
    name = f"anew{heard}"
    one, other = start(name), start(name)
    holds_a_block(other)
    one.await_line()
    one.tell("step")
    one.await_line("step")
    if heard:
        one.tell("finish")
        await_event(client, name, "finishing")
    killed = coordinator_pid(cluster)
    os.kill(killed, signal.SIGKILL)
    if not heard:
        one.tell("finish")
    assert other.end()[0] == one.end()[0] == "ended"
    told = ended(client, name)
    assert coordinator_pid(cluster) not in (None, killed)
    assert "coordinator_restarted" in [event["kind"] for event in told["events"]]
