"""Mistakes that people make with a cluster over several machines, which are network namespaces here:
clocks, credentials that do not belong together, names and proxies. Each ends soon with its cause
and what to do, and no worker tries for ever what cannot succeed.
"""

import contextlib
import re
import subprocess
import time

from tests.process.machines import Cluster, await_tasks
from tests.process.members import FILE, LONGEST_S, Lab
from tests.tools import machines
from tests.tools.local_cluster import poll

SPREAD = """
name: "lab"
coordinator { address: "alpha:2221" }
ps { address: "alpha:2222" }
worker { address: "beta:2301" device: CPU threads: 1 }
worker { address: "beta:2302" device: CPU threads: 1 }
open: true
heartbeat_ms: 100
lost_after_ms: 1500
"""
HOUR = 3600
# A machine's clock that is wrong: the programs' calls for the time, and nothing else.
CLOCK = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec* now) {
  int result = syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += atol(getenv("CLOCK_IS_OFF_BY"));
  return result;
}
time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return out == NULL ? now.tv_sec : (*out = now.tv_sec);
}
int gettimeofday(struct timeval* out, void* zone) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}
"""


def credential(lab, name):
    """The file of whoever has joined on that machine."""
    found = [path for path in (lab.cluster.folder(name) / "credentials/lab").glob("*.pem")
             if path.name != "authority.pem"]
    return sorted(found, key=lambda path: path.stat().st_mtime)[-1]


def parts(path):
    """(key, certificate, the authority's certificate), as text."""
    return re.findall(r"-----BEGIN.*?-----END [^\n]*\n", path.read_text(), re.S)


def make(lab):
    init = lab.run("alpha", "cluster", "init", FILE)
    lab.checks.check("cluster init makes the authority", init.returncode == 0, init.stderr)
    lab.cluster.start("alpha", ["coordinator", "up", FILE])
    lab.checks.check("alpha's tasks are up", await_tasks(
        lab.cluster, ["coordinator", "tasks", FILE], "alpha", 2) != "", lab.cluster.logs())
    for name, words in (("beta", ("--task=0",)), ("delta", ())):
        joined = lab.run(name, *lab.token("--role=worker"), *words)
        lab.checks.check(f"{name} joins", joined.returncode == 0, joined.stderr)


def with_variables(call, variables):
    """Of the machine's own programs only, not of what brings them there."""
    at = call.index("env") + 2  # behind its --chdir
    return [*call[:at], *variables, *call[at:]]


def ends(lab, what, name, command, *said, variables=()):
    """A program that would run on ends soon, with all of `said` in its words."""
    call, environment = lab.cluster.call(name, command)
    began = time.monotonic()
    process = subprocess.Popen(with_variables(call, variables), stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                               env=environment)
    try:
        text = process.communicate(timeout=2 * LONGEST_S)[0]
    except subprocess.TimeoutExpired:
        process.terminate()
        text = process.communicate()[0]
        lab.checks.check(what, False, f"it does not end: {text[-2000:]}")
        return
    took = time.monotonic() - began
    lab.checks.check(what, process.returncode != 0 and took < LONGEST_S and
                     all(re.search(part, text) for part in said), (took, text))


def clocks(lab):
    library = lab.cluster.write("clock.so", "")
    compiled = subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", library],
                              input=CLOCK, text=True, capture_output=True, check=False)
    if compiled.returncode != 0:
        lab.checks.skip("clocks", compiled.stderr)
        return
    behind = (f"LD_PRELOAD={library}", f"CLOCK_IS_OFF_BY={-HOUR}")
    ends(lab, "a worker whose clock is an hour behind", "beta", ["worker", "--task=0", FILE],
         "not begun|not valid|clock", "NTP|clock", variables=behind)
    ends(lab, "a command whose clock is an hour behind", "delta", ["coordinator", "jobs", FILE],
         "not begun|not valid|clock", "NTP|clock", variables=behind)
    ends(lab, "a machine that joins with such a clock", "gamma",
         ["coordinator", *lab.token("--role=viewer")], "clock", variables=behind)
    ends(lab, "a worker whose clock is two weeks ahead", "beta", ["worker", "--task=0", FILE],
         "ended", "clock|join",
         variables=(f"LD_PRELOAD={library}", f"CLOCK_IS_OFF_BY={14 * 24 * HOUR}"))


@contextlib.contextmanager
def changed(path, text):
    before = path.read_text()
    path.write_text(text)
    try:
        yield
    finally:
        path.write_text(before)


def half_renewed(lab):
    mine, other = credential(lab, "beta"), credential(lab, "delta")
    key, certificate, authority = parts(mine)
    with changed(mine, key + parts(other)[1] + authority):
        ends(lab, "a certificate of another key", "beta", ["worker", "--task=0", FILE],
             mine.name, "key", "join")
    with changed(mine, certificate + authority):
        ends(lab, "a file without its key", "beta", ["worker", "--task=0", FILE], mine.name, "key",
             "join")
    with changed(mine, key + certificate[:len(certificate) // 2]):
        ends(lab, "a file cut short", "beta", ["worker", "--task=0", FILE], mine.name, "join")


def wrong_names(lab):
    ends(lab, "a task that the certificate does not name", "beta", ["worker", "--task=1", FILE],
         "worker/1|worker/0", "join|--task")
    file = lab.cluster.folder("beta") / "cluster.textproto"
    with changed(file, file.read_text().replace("alpha:2221", "alpha:2222", 1).replace(
            'ps { address: "alpha:2222"', 'ps { address: "alpha:2223"')):
        ends(lab, "a server where the coordinator should be", "beta",
             ["worker", "--task=0", FILE], "ps/0", "coordinator")


def proxies(lab):
    names = [f"{name}=http://127.0.0.1:9" for name in
             ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy")]
    call, environment = lab.cluster.call("delta", ["coordinator", "jobs", FILE])
    answer = subprocess.run(with_variables(call, names), capture_output=True, text=True,
                            env=environment, check=False, timeout=60)
    # A worker's certificate may not list jobs: who says so is the coordinator.
    lab.checks.check("a proxy in the environment is passed by", "operator" in answer.stderr or
                     answer.returncode == 0, answer.stdout + answer.stderr)


def own_loopback(lab):
    """Debian gives a machine's own name the address 127.0.1.1."""
    hosts = lab.cluster.write("debian_hosts", "127.0.0.1 localhost\n127.0.1.1 beta\n" + "".join(
        f"{lab.four.address(name)} {name}\n" for name in lab.four.names if name != "beta"))
    subprocess.run([*lab.four.on("beta"), "mount", "--bind", hosts, "/etc/hosts"], check=True)
    lab.cluster.start("beta", ["worker", "--task=0", FILE])
    told = poll(lambda: re.search(r"beta:2301 is 127\.0\.1\.1.*no other machine.*/etc/hosts",
                                  lab.cluster.logs()), LONGEST_S)
    lab.checks.check("a name that is the loopback here", told, lab.cluster.logs())
    subprocess.run([*lab.four.on("beta"), "umount", "/etc/hosts"], check=True)


def replaced(lab):
    """The authority is made anew, and who had joined does not know."""
    lab.cluster.stop()
    kept = lab.cluster.folder("alpha") / "credentials/lab"
    kept.rename(kept.with_name("kept"))
    made = lab.run("alpha", "cluster", "init", FILE)
    lab.checks.check("the authority is replaced", made.returncode == 0, made.stderr)
    lab.cluster.start("alpha", ["coordinator", "up", FILE])
    lab.checks.check("alpha's tasks are up again", await_tasks(
        lab.cluster, ["coordinator", "tasks", FILE], "alpha", 2) != "", lab.cluster.logs())
    ends(lab, "a worker of the authority that was", "beta", ["worker", "--task=0", FILE],
         "another|authority|certificate", "join")
    ends(lab, "a command of the authority that was", "delta", ["coordinator", "jobs", FILE],
         "another|authority|certificate", "join")


def run(checks, options):
    if why := machines.refusal():
        checks.skip("mistakes", why)
        return
    with machines.Machines("alpha", "beta", "gamma", "delta") as four, \
            Cluster(options, four, SPREAD) as cluster:
        lab = Lab(checks, options, four, cluster)
        make(lab)
        clocks(lab)
        half_renewed(lab)
        wrong_names(lab)
        proxies(lab)
        own_loopback(lab)
        replaced(lab)
