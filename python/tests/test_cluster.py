"""Clusters and control, on a stand-in for the coordinator's program; the last tests on the
real one, where $MONSOON_BIN names a build."""

import gc
import io
import os
import pathlib
import signal
import stat
import subprocess
import sys

import numpy
import pytest

import monsoon as ms
from monsoon import _programs, cluster, progress
from monsoon.membership import become_member

# argv: VERB --cluster=FILE arguments.
PROGRAM = """#!{python}
import json, os, signal, sys
verb, words = sys.argv[1], sys.argv[2:]
folder = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(folder, "calls"), "a") as calls:
    calls.write(" ".join([verb] + [w for w in words if not w.startswith("--cluster=")]) + "\\n")
if verb == "up":
    text = open(words[0].split("=")[1]).read()
    print(text, flush=True)
    if "broken" in text:
        print("up: error: no such thing as broken", flush=True)
        sys.exit(2)
    if "silent" not in text:
        print('up: cluster "x" is ready: ...', flush=True)
    signal.pause()
elif verb == "jobs":
    print(json.dumps({{"jobs": [{{"job": "gpt-1"}}]}}))
elif verb == "describe":
    path = os.path.join(folder, "asked")
    asked = os.path.getsize(path) if os.path.exists(path) else 0
    open(path, "a").write("x")
    state = "RUNNING" if asked < 2 else words[1][:-2].upper()
    print(json.dumps({{"job": words[1], "state": state, "reason": "loss is nan",
                      "progress": {{"percent": 50.0 * asked, "step": asked, "loss": None}}}}))
elif verb == "submit":
    print(json.dumps({{"job": "succeeded-1", "state": "PENDING"}}))
elif verb == "export":
    import numpy
    out = [w for w in words if w.startswith("--out=")][0][6:]
    numpy.savez(out, **{{"w": numpy.ones((2, 3), "f4")}})
elif verb == "cancel":
    code, text = words[1].split("=", 1)
    sys.stderr.write(text + "\\n")
    sys.exit(int(code))
else:
    print("{{}}")
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    folder = tmp_path / "coordinator"
    folder.mkdir()
    path = folder / "coordinator"
    path.write_text(PROGRAM.format(python=sys.executable))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("MONSOON_BIN", str(tmp_path))
    return folder


def calls(program):
    return (program / "calls").read_text().splitlines()


def test_a_local_cluster_starts_and_stops(program):
    with ms.local_cluster(ps=2, workers=1, settings=["heartbeat_ms: 100"]) as running:
        text = pathlib.Path(running.path).read_text()
        assert text.count("127.0.0.1:") == 4 and "heartbeat_ms: 100" in text
        assert f'coordinator {{\n  address: "{running.address}"' in text
        process = running._stop.peek()[2][0]
        assert process.poll() is None
    assert process.poll() == -signal.SIGTERM
    assert not os.path.exists(running.path)
    running.stop()


def test_a_cluster_ends_with_its_object(program):
    running = ms.local_cluster().start()
    process = running._stop.peek()[2][0]
    del running
    gc.collect()
    assert process.poll() is not None


def test_a_cluster_that_does_not_come_up_says_why(program):
    with pytest.raises(ms.MonsoonError, match="no such thing as broken"):
        ms.local_cluster(settings=["broken"]).start()
    with pytest.raises(ms.TimedOut, match="did not come up within 0.1 s"):
        ms.local_cluster(settings=["silent"], timeout_s=0.1).start()


def test_ports_differ():
    ports = cluster.free_ports(50)
    assert len(set(ports)) == 50


def test_commands(program, tmp_path):
    client = ms.Client("127.0.0.1:2221")
    assert client.jobs() == [{"job": "gpt-1"}]
    assert client.submit("a.textproto", name="b", settings={"stop.epochs": 2}) == "succeeded-1"
    client.drain("worker/1", wait=True)
    client.delete("gpt-1")
    client.checkpoint("gpt-1")
    assert numpy.array_equal(client.load("gpt-1")["w"], numpy.ones((2, 3)))
    out = str(tmp_path / "model.npz")
    assert client.export("gpt-1", out, best=True) == out and os.path.exists(out)
    told = calls(program)
    assert told[:5] == ["jobs --json",
                        "submit a.textproto --name=b --set=stop.epochs=2 --json",
                        "drain worker/1 --wait", "delete gpt-1", "checkpoint gpt-1 --json"]
    assert told[6:] == ["tasks --json", f"export gpt-1 --out={out} --best"]


@pytest.mark.parametrize("code, text, kind", [
    (1, "gpt-1 failed: loss is nan", ms.JobFailed), (1, "gpt-1 was cancelled", ms.JobCancelled),
    (2, 'no job "gpt-9"', ms.JobNotFound), (2, "--out is missing", ms.InvalidArgument),
    (2, "the cluster runs version 0.2.0, this build is 0.1.0", ms.VersionsDiffer),
    (3, "coordinator at 127.0.0.1:1: refused", ms.Unreachable), (4, "not in time", ms.TimedOut),
    (5, "checksum of ps/1", ms.DataError)])
def test_exit_codes_become_exceptions(program, code, text, kind):
    with pytest.raises(kind) as caught:
        ms.Client("127.0.0.1:2221").cancel(f"{code}={text}")
    assert str(caught.value) == text


def test_a_program_joins_with_its_token(program, monkeypatch):
    monkeypatch.delenv("MONSOON_TOKEN", raising=False)
    become_member("alpha:2221")
    become_member("alpha:2221", "msn1.a.b.c")
    become_member("alpha:2221", "monsoon join msn1.a.b.c@beta:2221")
    monkeypatch.setenv("MONSOON_TOKEN", "msn1.d.e.f")
    become_member("alpha:2221")
    assert calls(program) == [f"join {invitation} --program" for invitation in (
        "msn1.a.b.c@alpha:2221", "msn1.a.b.c@beta:2221", "msn1.d.e.f@alpha:2221")]


def test_watch_until_the_end(program):
    told = list(ms.Client("127.0.0.1:2221").watch("succeeded-1", every_s=0.001))
    assert [t["state"] for t in told] == ["RUNNING", "RUNNING", "SUCCEEDED"]
    (program / "asked").unlink()
    with pytest.raises(ms.JobFailed, match="failed-1 failed: loss is nan"):
        list(ms.Client("127.0.0.1:2221").watch("failed-1", every_s=0.001))


def test_progress(program):
    out = io.StringIO()
    told = progress.show(ms.Client("127.0.0.1:2221").watch("succeeded-1", every_s=0.001), out)
    assert told["state"] == "SUCCEEDED"
    assert out.getvalue().splitlines()[1] == "job=succeeded-1 state=RUNNING percent=50.0 step=1"
    assert progress.bar(told, 20) == "[##################"
    assert progress.bar({**told, "progress": {"percent": 50}}, 200).startswith(
        "[" + "#" * 15 + "." * 15 + "] job=")


def test_an_address_that_is_none():
    with pytest.raises(ms.InvalidArgument, match="neither host:port nor a cluster file"):
        ms.Client("nowhere")


def built():
    try:
        return bool(_programs.find("coordinator") and _programs.find("ps_server"))
    except ms.LibraryNotFound:
        return False


@pytest.mark.skipif(not built(), reason="$MONSOON_BIN names no build")
def test_a_real_cluster():
    with ms.local_cluster(ps=2) as running:
        client = ms.Client(running.address)
        assert client.jobs() == []
        with pytest.raises(ms.JobNotFound, match="gpt-1"):
            client.describe("gpt-1")
        assert client.version()["version"] == ms.__version__
        pid = running._stop.peek()[2][0].pid
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], check=True,
                                  stdout=subprocess.PIPE, text=True).stdout.split()
        assert len(children) == 3
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(int(child), 0)
    with pytest.raises(ms.Unreachable):
        ms.Client(running.address).jobs()
