#!/usr/bin/python3
"""What deploy/demo.sh measures and prints.

    demo_report.py sample PID FILE     CPU time and threads of PID and its
                                       children, until SIGTERM
    demo_report.py report RESULT.json JOB1.json PROCESSES1.json \\
                                      JOB3.json PROCESSES3.json
"""

import json
import os
import signal
import sys
import time

SAMPLE_INTERVAL_S = 0.25
# From this share of the machine's cores on, the cores are the limit.
BUSY_SHARE = 0.85
# From this share on, other programs disturb the measurement.
FOREIGN_SHARE = 0.1


def read_process(pid):
    """{name, parent, cpu_s, threads} of a process, or None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            text = file.read()
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().decode(errors="replace").split("\0")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2:].split()
    ticks = os.sysconf("SC_CLK_TCK")
    task = next((w.split("=")[1] for w in words if w.startswith("--task=")), None)
    name = os.path.basename(words[0] or "?")
    if task is not None:
        name += f"/{task}"
    elif len(words) > 1 and words[1] in ("up", "serve"):
        name += f" {words[1]}"
    return {"name": name, "parent": int(fields[1]), "threads": int(fields[17]),
            "cpu_s": (int(fields[11]) + int(fields[12])) / ticks}


def machine_cpu_s():
    """CPU seconds that all programs of the machine have used."""
    with open("/proc/stat", encoding="utf-8") as file:
        fields = [int(word) for word in file.readline().split()[1:9]]
    user, nice, system, _, _, irq, softirq, steal = fields
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def children_of(parent):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            process = read_process(int(entry))
            if process and process["parent"] == parent:
                found.append(int(entry))
    return found


def sample(parent, path):
    """Polls until SIGTERM; then writes what was used in between."""
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    began, machine_began = time.monotonic(), machine_cpu_s()
    seen = {}
    while True:
        for pid in [parent] + children_of(parent):
            process = read_process(pid)
            if process is None:
                continue
            first = seen.setdefault(pid, dict(process, first_cpu_s=process["cpu_s"]))
            first["name"] = process["name"]
            first["cpu_s"] = process["cpu_s"]
            first["threads"] = max(first["threads"], process["threads"])
        if stopping:
            break
        time.sleep(SAMPLE_INTERVAL_S)
    elapsed = time.monotonic() - began
    processes = [{"pid": pid, "name": p["name"], "threads": p["threads"],
                  "cpu_s": round(p["cpu_s"] - p["first_cpu_s"], 2)} for pid, p in seen.items()]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"elapsed_s": elapsed, "machine_cpu_s": machine_cpu_s() - machine_began,
                   "processes": processes}, file)


def roles(job, processes):
    """The sampled processes with their role from the job's description."""
    role_of = {w["pid"]: f"worker/{w['task']}" for w in job.get("workers", []) if w.get("pid")}
    role_of.update({s["pid"]: f"ps/{s['task']}" for s in job.get("shards", []) if s.get("pid")})
    rows = []
    for process in processes["processes"]:
        role = role_of.get(process["pid"], process["name"])
        compute = next((w.get("threads") for w in job.get("workers", [])
                        if w.get("pid") == process["pid"]), None)
        rows.append({"role": role, "pid": process["pid"], "threads": process["threads"],
                     "compute_threads": compute, "cpu_s": process["cpu_s"],
                     "cores": round(process["cpu_s"] / processes["elapsed_s"], 2)})
    return sorted(rows, key=lambda row: row["role"])


def summarise(job, processes):
    staleness = job.get("staleness") or {}
    latency = job.get("latency_ms") or {}
    rows = roles(job, processes)
    examples = sum(worker.get("examples") or 0 for worker in job.get("workers", []))
    elapsed = job.get("elapsed_s")
    used = sum(row["cpu_s"] for row in rows) / processes["elapsed_s"]
    machine = processes["machine_cpu_s"] / processes["elapsed_s"]
    return {
        "job": job.get("job"),
        "state": job.get("state"),
        "workers": len([w for w in job.get("workers", []) if w.get("steps")]),
        "test_accuracy": (job.get("final") or {}).get("test_accuracy"),
        "loss": (job.get("final") or {}).get("loss"),
        "elapsed_s": elapsed,
        # Over the whole run, evaluations included.
        "examples_per_s": examples / elapsed if examples and elapsed else None,
        "step_ms_p50": latency.get("step_p50"),
        "fetch_ms_p50": latency.get("fetch_p50"),
        "push_ms_p50": latency.get("push_p50"),
        "staleness_p50": staleness.get("p50"),
        "staleness_p99": staleness.get("p99"),
        "staleness_mean": staleness.get("mean"),
        "cores_used": round(used, 2),
        # By programs that do not belong to the cluster.
        "cores_used_by_others": round(max(0.0, machine - used), 2),
        "processes": rows,
    }


def shown(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"


def explain(one, three, cores):
    """Why the two runs differ, from their own figures."""
    if not one["examples_per_s"] or not three["examples_per_s"]:
        return "The rates were not measured, so the runs cannot be compared."
    ratio = three["examples_per_s"] / one["examples_per_s"]
    others = max(one["cores_used_by_others"], three["cores_used_by_others"])
    busy = three["cores_used"] + three["cores_used_by_others"]
    text = (f"Three workers processed {ratio:.2f} times the examples/s of one. "
            f"Of the machine's {cores} cores the cluster kept {one['cores_used']:.2f} busy with one "
            f"worker and {three['cores_used']:.2f} with three")
    if others >= FOREIGN_SHARE * cores:
        text += (f", and other programs up to {others:.2f}, so both runs are slower than this "
                 "machine can be and their ratio is uncertain")
    steps = (f"{shown(three['step_ms_p50'], 1)} ms with three workers against "
             f"{shown(one['step_ms_p50'], 1)} ms with one")
    if busy >= BUSY_SHARE * cores:
        text += (f". The cores are the limit: a step takes {steps}, because they share them; with "
                 "a core for each worker more is to be expected.")
    else:
        text += (f". The cores were not all busy: a step takes {steps}, a fetch "
                 f"{shown(three['fetch_ms_p50'], 1)} against {shown(one['fetch_ms_p50'], 1)} ms, a "
                 f"push {shown(three['push_ms_p50'], 1)} against {shown(one['push_ms_p50'], 1)} ms.")
    if one["test_accuracy"] is not None and three["test_accuracy"] is not None:
        points = 100 * (three["test_accuracy"] - one["test_accuracy"])
        text += (f" After the same number of epochs the test accuracy differs by {points:+.2f} "
                 "points")
        if three["staleness_mean"] is not None:
            text += (": with three workers a gradient is applied to parameters that "
                     f"{three['staleness_mean']:.2f} pushes (mean) have changed since they were "
                     f"fetched, with one {shown(one['staleness_mean'], 2)}")
        text += (". One run of each shows their speed here and that both learn. It cannot show "
                 "which is more accurate: another seed moves the result by some tenths of a point, "
                 "and a busy machine, where workers run unevenly, by a point and more; "
                 "docs/benchmarks.md compares several seeds.")
    return text


def table(one, three):
    rows = [("", "1 worker", "3 workers")]
    for label, key, digits in [
            ("test accuracy", "test_accuracy", 4), ("examples/s", "examples_per_s", 0),
            ("elapsed, s", "elapsed_s", 1), ("step p50, ms", "step_ms_p50", 2),
            ("fetch p50, ms", "fetch_ms_p50", 2), ("push p50, ms", "push_ms_p50", 2),
            ("staleness p50", "staleness_p50", 0), ("staleness p99", "staleness_p99", 0),
            ("staleness mean", "staleness_mean", 2), ("cores busy", "cores_used", 2),
            ("cores busy with other programs", "cores_used_by_others", 2)]:
        rows.append((label, shown(one[key], digits), shown(three[key], digits)))
    for role in sorted({row["role"] for run in (one, three) for row in run["processes"]}):
        cells = []
        for run in (one, three):
            row = next((r for r in run["processes"] if r["role"] == role), None)
            cells.append("-" if row is None else f"{row['cores']:.2f} / {row['threads']}"
                         + (f" ({row['compute_threads']} compute)" if row["compute_threads"] else ""))
        rows.append((f"{role}: cores / threads", *cells))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = ["  ".join([row[0].ljust(widths[0])] + [row[i].rjust(widths[i]) for i in (1, 2)])
             for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0])] + lines[1:])


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def report(result_path, paths):
    one = summarise(load(paths[0]), load(paths[1]))
    three = summarise(load(paths[2]), load(paths[3]))
    cores = len(os.sched_getaffinity(0))
    text = explain(one, three, cores)
    with open(result_path + ".tmp", "w", encoding="utf-8") as file:
        json.dump({"schema_version": 1, "cores": cores, "explanation": text,
                   "one_worker": one, "three_workers": three}, file, indent=2)
        file.write("\n")
    os.replace(result_path + ".tmp", result_path)
    print(table(one, three))
    print()
    print(text)


def main(arguments):
    if len(arguments) == 3 and arguments[0] == "sample":
        sample(int(arguments[1]), arguments[2])
    elif len(arguments) == 6 and arguments[0] == "report":
        report(arguments[1], arguments[2:])
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
