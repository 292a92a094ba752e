"""A program for bounds.py: its steps only take time, and each is pushed.

    bounded_program.py COORDINATOR JOB STEP_SECONDS STEPS BOUND [drop]

Last line: how many steps it has made.
"""

import sys
import time

import numpy

import monsoon as ms

BATCH = 4


def main():
    coordinator, job_name = sys.argv[1:3]
    step_s, steps = float(sys.argv[3]), int(sys.argv[4])
    bound = None if sys.argv[5] == "none" else int(sys.argv[5])
    model = {"w": numpy.zeros(4096, numpy.float32)}
    gradient = {"w": numpy.ones(4096, numpy.float32)}
    made = 0
    with ms.join(coordinator, job=job_name, model=model, optimizer=ms.SGD(0.001), epochs=1,
                 examples=steps * BATCH, batch=BATCH, block_examples=BATCH, overlap=False,
                 staleness_bound=bound, drop_older=sys.argv[-1] == "drop",
                 checkpoint=ms.Checkpoint(every_seconds=1)) as job:
        print("in", flush=True)
        for _ in job.blocks():
            time.sleep(step_s)  # the step
            job.step(0.0, gradients=gradient)
            made += 1
    print(made, flush=True)


if __name__ == "__main__":
    main()
