"""A program behind a slow link, for linked.Program: its steps only take time.

    linked_program.py COORDINATOR JOB WAY SETTINGS

WAY is one of ways.py, SETTINGS is JSON: parameters, tensors, step_s, every, replicas, examples,
marks: after so many steps of its own it prints a line of JSON with what it has done until then,
and where its time went. The last line is one of these too. It ends with the job, or when the job
is cancelled.
"""

import json
import os
import sys
import time

import numpy

import monsoon as ms
import ways

# The steps of a model are of this length, so that they do not cost a core.
_MOVED = 1 << 16


def settings_of(way, every, replicas):
    """Keywords of monsoon.join()."""
    mean = ms.SGD(1 / replicas)
    if way == "downpour":
        return {"optimizer": ms.SGD(0.1 / replicas)}
    if way == "whole":
        return {"optimizer": ms.Local(None, every=every, outer=mean)}
    if way == "whole_int4":
        return {"optimizer": ms.Local(None, every=every, outer=mean, changes="int4"),
                "push_format": "int4"}
    if way == "streaming":
        return {"optimizer": ms.Local(None, every=every, outer=mean, changes="int4",
                                      fragments=ms.Fragments(ways.FRAGMENTS)),
                "push_format": "int4"}
    if way == "streaming_float32":
        return {"optimizer": ms.Local(None, every=every, outer=mean,
                                      fragments=ms.Fragments(ways.FRAGMENTS))}
    if way == "rounds":
        return {"optimizer": ms.Local(None, every=every, outer=ms.Nesterov(0.7, 0.9),
                                      rounds=ms.Rounds(), changes="int4"), "push_format": "int4"}
    raise ValueError(f"way {way!r}: there are {', '.join(ways.WAYS)}")


def cpu_s(pid):
    """Of all threads of a process."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        words = stat.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def told(job, what, steps, spent):
    stats = job.stats
    print(json.dumps({"at": what, "time": time.monotonic(), "steps": steps, **spent,
                      "cpu_program": time.process_time(), "cpu_sidecar": cpu_s(stats.sidecar_pid),
                      "pushes": stats.pushes,
                      "fetches": stats.fetches, "bytes_pushed": stats.bytes_pushed,
                      "bytes_fetched": stats.bytes_fetched, "sessions": stats.sessions,
                      "refused": stats.refused, "discarded": stats.discarded}), flush=True)


def main():
    coordinator, job_name, way = sys.argv[1:4]
    settings = json.loads(sys.argv[4])
    tensors = settings["tensors"]
    size = settings["parameters"] // tensors
    model = {f"blocks.{i}.w": numpy.zeros(size, numpy.float32) for i in range(tensors)}
    noise = numpy.random.default_rng(1).standard_normal(min(size, _MOVED)).astype("f4") * 1e-3
    steps = 0
    spent = {"computing_s": 0.0, "stepping_s": 0.0, "drawing_s": 0.0}
    try:
        with ms.join(coordinator, job=job_name, model=model, epochs=1, batch=1,
                     examples=settings["examples"], checkpoint=ms.Checkpoint(every_seconds=30),
                     block_examples=settings["block"], connect_timeout_s=60,
                     **settings_of(way, settings["every"], settings["replicas"])) as job:
            told(job, "in", 0, spent)
            local = way != "downpour"
            left = time.monotonic()
            for _ in job.blocks():
                began = time.monotonic()
                due = began + settings["step_s"]
                moved = model if local else job.gradients
                moved[f"blocks.{steps % tensors}.w"][:noise.size] += noise
                time.sleep(max(0.0, due - time.monotonic()))
                computed = time.monotonic()
                job.step(0.0)
                spent["drawing_s"] += began - left
                spent["computing_s"] += computed - began
                left = time.monotonic()
                spent["stepping_s"] += left - computed
                steps += 1
                if steps in settings["marks"]:
                    told(job, steps, steps, spent)
            told(job, "end", steps, spent)
    except ms.JobCancelled:
        pass


if __name__ == "__main__":
    main()
