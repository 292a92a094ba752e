"""A program for killed_programs.py: its model is a count for each sample, and each step adds
1 to those of its batch, so the shards hold how often each sample was counted. And, but for
local steps, its table has a row for each sample, which the same steps push, and which so many
pushes have moved by 1 + 1/sqrt(2) + 1/sqrt(3) + ...

    counting_program.py COORDINATOR JOB BOOKS EXAMPLES BATCH EPOCHS [local_steps]

As long as there is a file "slow" beside BOOKS it pauses after each step.

At the job's end the rows are written to BOOKS.rows.

BOOKS is a file of two arrays of uint32, mapped, so that it outlives this process: how often
each sample was sent, written before the step, and acknowledged, written after it.
"""

import mmap
import pathlib
import sys
import time

import numpy

import monsoon as ms


def table_of(examples):
    return ms.Table("rows", examples, 1, lr=1.0, eps=1e-12, constant=0.0)


def main():
    coordinator, job_name, path = sys.argv[1:4]
    examples, batch, epochs = (int(word) for word in sys.argv[4:7])
    local_steps = int(sys.argv[7]) if len(sys.argv) > 7 else 0
    slow = pathlib.Path(path).parent / "slow"
    with open(path, "r+b") as file:
        books = numpy.frombuffer(mmap.mmap(file.fileno(), 0), dtype=numpy.uint32)
    sent, acknowledged = books[:examples], books[examples:]
    model = {"count": numpy.zeros(examples, numpy.float32)}
    optimizer = ms.Local(None, every=local_steps) if local_steps else ms.SGD(1.0)
    with ms.join(coordinator, job=job_name, model=model, optimizer=optimizer, epochs=epochs,
                 examples=examples, batch=batch, block_examples=batch, overlap=False,
                 checkpoint=ms.Checkpoint(every_seconds=0.5),
                 tables=[] if local_steps else [table_of(examples)]) as job:
        print("in", flush=True)
        waiting = []  # with local steps: not exchanged yet
        for ids in job.blocks():
            sent[ids] += 1
            discarded, pushes = job.stats.discarded, job.stats.pushes
            if local_steps:
                model["count"][ids] += 1
            else:
                job.gradients["count"][...] = 0
                job.gradients["count"][ids] = -1
                job.push_rows("rows", ids, numpy.full((len(ids), 1), -1))
            job.step(0.0)
            waiting.append(ids)
            if job.stats.discarded != discarded:
                waiting.clear()
            elif not local_steps or job.stats.pushes != pushes or job.ended:
                for counted in waiting:
                    acknowledged[counted] += 1
                waiting.clear()
            if slow.exists():
                time.sleep(0.02)
        if not local_steps and job.ended:
            job.fetch_rows("rows", numpy.arange(examples)).tofile(path + ".rows")
    print("out", flush=True)


if __name__ == "__main__":
    main()
