"""A program for soak.py: it trains a vector and a table of rows until it is told to end.

    soak_program.py COORDINATOR JOB WAY     WAY: shards (each step is a push) or local

SIGTERM ends it in order.
"""

import signal
import sys
import time

import numpy

import monsoon as ms

VALUES, ROWS, WIDTH, BATCH = 50_000, 4_000, 16, 32
SAMPLES = 1 << 20
EVERY = 20


def main():
    coordinator, name, way = sys.argv[1:4]
    wanted = []
    signal.signal(signal.SIGTERM, lambda *unused: wanted.append("to end"))
    model = {"values": numpy.zeros(VALUES, numpy.float32)}
    local = way == "local"
    optimizer = ms.Local(None, every=EVERY, outer=ms.SGD(0.5)) if local else ms.SGD(1e-3)
    tables = [] if local else [ms.Table("rows", ROWS, WIDTH, lr=0.1, eps=1e-8)]
    with ms.join(coordinator, job=name, model=model, optimizer=optimizer, tables=tables,
                 epochs=100_000, examples=SAMPLES, batch=BATCH, programs=2,
                 checkpoint=ms.Checkpoint(every_seconds=1)) as job:
        print("in", flush=True)
        for ids in job.blocks():
            if local:
                model["values"] *= numpy.float32(0.999)
            else:
                job.gradients["values"][...] = model["values"] - 1
                rows = numpy.unique(ids % ROWS)
                job.fetch_rows("rows", rows)
                job.push_rows("rows", rows, numpy.ones((len(rows), WIDTH), numpy.float32))
            time.sleep(0.002)
            job.step(1.0)
            if wanted or job.ended:
                break


if __name__ == "__main__":
    main()
