"""The cluster file of a coordinator that a client knows by its address."""

import os
import subprocess
import sys

import pytest

import monsoon as ms
from monsoon._cluster_file import own_file

HERE = os.uname().nodename


@pytest.fixture
def serving(tmp_path):
    """A process with the words of a coordinator, in a folder with its cluster file."""
    (tmp_path / "cluster.textproto").write_text('coordinator { address: "alpha:2221" }')
    process = subprocess.Popen([sys.executable, "-c", "print(flush=True); input()", "serve",
                                "--cluster=cluster.textproto"], cwd=tmp_path,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    # Its words are there when it runs: Popen returns while the kernel still sets them up.
    process.stdout.readline()
    yield process.pid, str(tmp_path / "cluster.textproto")
    process.communicate(b"\n")


def test_it_is_found_by_the_process(serving):
    pid, path = serving
    assert own_file("alpha:2221", {"pid": pid, "host": HERE}) == path


@pytest.mark.parametrize("address, host", [("alpha:2222", HERE), ("alpha:221", HERE),
                                           ("alpha:2221", HERE + "-other")])
def test_another_cluster_or_machine_is_not_it(serving, address, host):
    assert own_file(address, {"pid": serving[0], "host": host}) is None


def test_another_process_is_not_it():
    assert own_file("alpha:2221", {"pid": os.getpid(), "host": HERE}) is None
    assert own_file("alpha:2221", {"pid": 0, "host": HERE}) is None
    assert own_file("alpha:2221", {"pid": 1 << 30, "host": HERE}) is None


def test_where_it_is_not_found_the_message_says_what_to_do(tmp_path, monkeypatch):
    script = tmp_path / "coordinator"
    script.write_text("""#!/bin/sh
if [ "$1" = tasks ]; then
  echo '{"tasks": [{"task": "coordinator/0", "pid": 7, "host": "gamma"}]}'
elif [ "$1" = jobs ]; then
  echo '{"jobs": []}'
else
  echo "there is no checkpoint of gpt-1 in /nowhere" >&2; exit 2
fi
""")
    script.chmod(0o755)
    monkeypatch.setenv("MONSOON_BIN", str(tmp_path))
    client = ms.Client("alpha:2221")
    for call in (lambda: client.export("gpt-1", "m.npz", best=True),
                 lambda: client.resume("gpt-1")):
        with pytest.raises(ms.InvalidArgument, match=r"no checkpoint of gpt-1 in /nowhere; this "
                                                     r"client .* runs on gamma, where this works"):
            call()
