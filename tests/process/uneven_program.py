"""A program for uneven_speeds.py: its steps only take time.

    uneven_program.py COORDINATOR JOB STEP_SECONDS EXAMPLES BATCH EPOCHS EVERY

Last line: how many samples it stepped over.
"""

import sys
import time

import numpy

import monsoon as ms


def main():
    coordinator, job_name = sys.argv[1:3]
    step_s = float(sys.argv[3])
    examples, batch, epochs, every = (int(word) for word in sys.argv[4:8])
    model = {"w": numpy.zeros(4096, numpy.float32)}
    optimizer = ms.Local(None, every=every, dynamic=True, outer=ms.SGD(0.25))
    samples = 0
    with ms.join(coordinator, job=job_name, model=model, optimizer=optimizer, epochs=epochs,
                 examples=examples, batch=batch, block_examples=4 * batch,
                 checkpoint=ms.Checkpoint(every_seconds=5)) as job:
        print("in", flush=True)
        for ids in job.blocks():
            time.sleep(step_s)  # the step
            model["w"] += 0.001
            job.step(0.0)
            samples += len(ids)
    print(samples, flush=True)


if __name__ == "__main__":
    main()
