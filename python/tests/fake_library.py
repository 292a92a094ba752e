"""A stand-in for libmonsoon.so in one process: the functions of worker/client/monsoon.h on
jobs that are a NumPy vector, with SGD as the shard's optimizer. Tests plant events in it.
"""

import ctypes as c
import re

import numpy

from monsoon import _library

GO, EVALUATE, NOTHING_NOW, ENDED, DUE = range(5)


def aligned(size):
    """Floats with a tensor at each multiple of 64 bytes."""
    return (size + 15) // 16 * 16


class FakeJob:
    """What coordinator and shards hold of a job."""

    def __init__(self, name, text, tensors):
        self.id, self.text, self.tensors = name + "-1", text, tensors
        self.values, self.tables, self.rows = None, "", {}
        number = lambda field, default: float(
            (re.search(rf"\b{field}: ([-\d.e+]+)", text) or [0, default])[1])
        self.rate = number("rate", 0)
        self.local_steps = int(number(r"local \{\s*steps", 0))
        self.batch, self.epochs = int(number("batch_size", 1)), int(number("epochs", 1))
        self.examples = int(number("examples", 0))
        self.unnumbered = "unnumbered: true" in text
        self.epoch, self.given, self.counted = 0, 0, 0
        self.released = []
        self.streams = {}  # name: state
        self.ended = False
        self.done = []  # samples that counted

    def per_epoch(self):
        return -(-self.examples // self.batch)

    def next(self):
        """A batch, NOTHING_NOW or ENDED."""
        if self.ended:
            return ENDED
        if self.unnumbered:
            return list(range(self.batch)), 0
        if self.released:
            return self.released.pop(0)
        if self.given == self.per_epoch():
            if self.counted < self.per_epoch():
                return NOTHING_NOW
            self.epoch, self.given, self.counted = self.epoch + 1, 0, 0
            if self.epoch == self.epochs:
                self.ended = True
                return ENDED
        begin = self.given * self.batch
        self.given += 1
        return list(range(begin, min(begin + self.batch, self.examples))), self.epoch

    def count(self, batch):
        self.counted += 1
        self.done += batch[0]
        last = self.epoch == self.epochs - 1 and self.counted == self.per_epoch()
        self.ended = self.ended or (last and not self.unnumbered)


class FakeReplica:
    def __init__(self, job):
        self.job, self.drawn, self.steps, self.left = job, [], 0, False
        self.refused = 0
        self.offsets, size = [], 0
        for _, shape, _, _ in job.tensors:
            self.offsets.append(size)
            size += aligned(int(numpy.prod(shape, dtype=int)))
        self.size = size
        self.parameters, self.gradient, self.evaluated = (
            numpy.zeros(size, numpy.float32) for _ in range(3))
        self.base, self.row_gradients = None, []
        self.taken, self.noted = "", {}
        self.since, self.told_steps = 0, 0  # since the last exchange; 0: the job's
        self.pending = None  # the event and batch that monsoon_wait goes on with

    def statistic(self):
        mask = numpy.zeros(self.size, bool)
        for offset, (_, shape, kind, _) in zip(self.offsets, self.job.tensors):
            mask[offset:offset + int(numpy.prod(shape, dtype=int))] = kind == 1
        return mask

    def land(self):
        self.parameters[:] = self.job.values
        self.base = self.job.values.copy()


class FakeLibrary:
    """Counts calls in `calls`; `interrupt` of a name lets its next call return INTERRUPTED;
    `events` has {step number: (kind, discarded)}; `fail` of a name gives (code, message);
    the session is lost in the draw whose number is `lost_draw`; `told_steps` are the local
    steps of one difference after another, as a coordinator says (none left: the job's)."""

    def __init__(self, version="0.1.0"):
        self.version, self.jobs, self.replicas = version, {}, []
        self.programs = 1  # that train, as stats tell
        self.warnings = b""
        self.end = "SUCCEEDED"  # of a job that has ended
        self.calls, self.interrupt, self.events, self.fail = [], set(), {}, {}
        self.joined, self.steps, self.reports, self.freed = [], [], [], []
        self.absent = []  # of each step, the tensors that it had no gradient of
        self.error = b""
        self.lost_draw, self.row_events, self.finishing = 0, [], []
        self.refuses, self.reports_again = False, False  # differences that are not finite; sessions
        self.stream_push, self.stream_again = 5, 0
        self.told_steps, self.differences = [], []  # the latter: how many steps each has had

    def _begin(self, name):
        self.calls.append(name)
        if name in self.fail:
            code, message = self.fail.pop(name)
            self.error = message.encode()
            return code
        return 0

    def _replica(self, handle):
        return self.replicas[handle.value - 1]

    def _tell(self, name, replica, event, kind, changed=0, discarded=0, batch=None, samples=None):
        if name in self.interrupt:
            self.interrupt.discard(name)
            replica.pending = (kind, changed, discarded, samples)
            return _library.INTERRUPTED
        told = event._obj
        told.kind, told.parameters_changed, told.discarded = kind, changed, discarded
        if batch is not None:
            batch._obj.count, batch._obj.left = 0, 0
            if samples is not None:
                replica.samples = (c.c_uint32 * len(samples[0]))(*samples[0])
                batch._obj.samples = c.cast(replica.samples, c.POINTER(c.c_uint32))
                batch._obj.count, batch._obj.epoch = len(samples[0]), samples[1]
        return 0

    def monsoon_abi(self):
        return 6

    def monsoon_version(self):
        return self.version.encode() + b" (fake)"

    def monsoon_last_error(self):
        return self.error

    def _absent(self, text):
        """What a program that would only enter a job hears, where none of the name trains."""
        name = re.search(r'name: "(.*?)"', text)[1]
        job = self.jobs.get(name)
        if job is not None and not job.ended:
            return b""
        told = f'no job "{name}" is there to enter'
        return (told if job is None else
                f"{told}: the newest, {job.id}, has ended: {self.end}").encode()

    def monsoon_join(self, options, handle):
        if options._obj.only_enter and not self.fail:
            self.error = self._absent(options._obj.job.decode())
            if self.error:
                return 5
        code = self._begin("join")
        if code:
            return code
        if "join" in self.interrupt:
            self.interrupt.discard("join")
            return _library.INTERRUPTED
        told = options._obj
        text = told.job.decode()
        tensors = [(t.name.decode(), tuple(t.shape[i] for i in range(t.dimensions)), t.kind,
                    [t.aliases[i].decode() for i in range(t.alias_count)])
                   for t in told.tensors[:told.tensor_count]]
        self.joined.append((told.coordinator.decode(), text, tensors))
        name = re.search(r'name: "(.*?)"', text)[1]
        if name in self.jobs and self.jobs[name].ended:
            self.jobs[name] = FakeJob(name, text, tensors)
        job = self.jobs.setdefault(name, FakeJob(name, text, tensors))
        if job.text != text or job.tensors != tensors:
            self.error = b"job gpt-1 has other settings: batch_size is 64 here and 32 in job gpt-1"
            return 3
        job.tables = (told.tables or b"").decode()
        self.replicas.append(FakeReplica(job))
        handle._obj.value = len(self.replicas)
        return 0

    def monsoon_job(self, handle):
        return self._replica(handle).job.id.encode()

    def monsoon_warnings(self, handle):
        return self.warnings

    def monsoon_size(self, handle):
        return self._replica(handle).size

    def monsoon_offset(self, handle, i):
        return self._replica(handle).offsets[i]

    def _pointer(self, array):
        return array.ctypes.data_as(c.POINTER(c.c_float))

    def monsoon_parameters(self, handle):
        return self._pointer(self._replica(handle).parameters)

    def monsoon_gradient(self, handle):
        return self._pointer(self._replica(handle).gradient)

    def monsoon_evaluated(self, handle):
        return self._pointer(self._replica(handle).evaluated)

    def monsoon_local_steps(self, handle):
        return self._replica(handle).job.local_steps

    def monsoon_begin(self, handle, event):
        code, replica = self._begin("begin"), self._replica(handle)
        if code:
            return code
        if replica.job.values is None:
            replica.job.values = replica.parameters.copy()
        replica.land()
        self._begin_difference(replica)
        return self._tell("begin", replica, event, GO, 1)

    def _begin_difference(self, replica):
        replica.since, replica.told_steps = 0, self.told_steps.pop(0) if self.told_steps else 0

    def monsoon_draw(self, handle, batch, event):
        code, replica = self._begin("draw"), self._replica(handle)
        if code:
            return code
        if self.calls.count("draw") == self.lost_draw:
            replica.job.released = replica.drawn + replica.job.released
            replica.drawn = []
            replica.land()
            return self._tell("draw", replica, event, GO, 1, 1, batch)
        given = replica.job.next()
        if given == NOTHING_NOW and not replica.drawn:
            raise AssertionError("a draw that would wait for ever")
        if isinstance(given, int):
            return self._tell("draw", replica, event, given, given == ENDED, batch=batch)
        replica.drawn.append(given)
        return self._tell("draw", replica, event, GO, batch=batch, samples=given)

    def monsoon_take_stream(self, handle, name, event):
        code, replica = self._begin("take_stream"), self._replica(handle)
        if code:
            return code
        replica.taken = name.decode()
        return self._tell("take_stream", replica, event, GO)

    def monsoon_taken_stream(self, handle):
        replica = self._replica(handle)
        state = replica.job.streams.get(replica.taken)
        if state is None:
            return _library.Stream()
        replica.state = c.create_string_buffer(state, len(state))
        return _library.Stream(1, c.addressof(replica.state), len(state), 3, self.stream_push,
                               self.stream_again)

    def monsoon_note_position(self, handle, name, state, size):
        code = self._begin("note_position")
        self._replica(handle).noted[name.decode()] = state[:size]
        return code

    def monsoon_no_more_samples(self, handle, event):
        replica = self._replica(handle)
        replica.job.ended = True
        code = self._begin("no_more_samples")
        return code or self._tell("no_more_samples", replica, event, ENDED)

    def monsoon_finish(self, handle, event):
        """`finishing` has the events (kind, discarded) before the job ends, one a call."""
        code, replica = self._begin("finish"), self._replica(handle)
        if code:
            return code
        kind, discarded = self.finishing.pop(0) if self.finishing else (ENDED, 0)
        if discarded:
            replica.job.released = replica.drawn + replica.job.released
        elif replica.job.local_steps and replica.since:
            self.differences.append(replica.since)
            replica.job.values += replica.parameters - replica.base
            replica.since = 0
        replica.drawn = []
        replica.land()
        replica.evaluated[:] = replica.job.values + 1
        replica.job.ended |= not discarded
        return self._tell("finish", replica, event, kind, 1, discarded)

    def monsoon_step_is_due(self, handle, batches, due):
        replica = self._replica(handle)
        job = replica.job
        last = not job.unnumbered and job.counted + batches == job.per_epoch()
        due._obj.value = (not job.local_steps or last
                          or (replica.since + 1 == replica.told_steps if replica.told_steps
                              else (replica.steps + 1) % job.local_steps == 0))
        return self._begin("step_is_due")

    def monsoon_step(self, handle, step, event):
        code, replica = self._begin("step"), self._replica(handle)
        if code:
            return code
        job, info = replica.job, step._obj
        due = c.c_int()
        self.monsoon_step_is_due(handle, info.batches, c.byref(due))
        if info.unless_due and due.value:
            return self._tell("step", replica, event, DUE)
        self.steps.append((info.batches, info.loss if info.has_loss else None))
        self.absent.append([info.absent[i] for i in range(info.absent_count)])
        kind, discarded = self.events.pop(len(self.steps), (GO, 0))
        counted = [replica.drawn.pop(0) for _ in range(info.batches)]
        if discarded:
            job.released = counted + replica.drawn + job.released
            replica.drawn = []
            replica.row_gradients, replica.noted = [], {}
            replica.land()
            return self._tell("step", replica, event, kind, 1, 1)
        job.streams.update(replica.noted)
        for batch in counted:
            job.count(batch)
        for table, row, row_gradient in replica.row_gradients:
            job.rows[table, row] -= numpy.float32(job.rate) * row_gradient
        replica.row_gradients = []
        replica.steps += 1
        replica.since += 1
        if due.value:
            self.differences.append(replica.since)
            self._begin_difference(replica)
            moved = replica.parameters - replica.base
            if self.refuses and not numpy.isfinite(moved).all():
                replica.refused, moved = replica.refused + 1, numpy.zeros_like(moved)
            pushed = moved if job.local_steps else numpy.where(
                replica.statistic(), moved, -numpy.float32(job.rate) * replica.gradient)
            job.values += pushed
            replica.land()
        if info.zero_gradient and not job.local_steps:
            replica.gradient[:] = 0
        replica.evaluated[:] = job.values + 1
        return self._tell("step", replica, event, ENDED if job.ended and kind == GO else kind,
                          due.value)

    def monsoon_fetch_rows(self, handle, table, rows, count, values, event):
        """A row begins with its number in all columns; `row_events` are told one after another."""
        code, replica = self._begin("fetch_rows"), self._replica(handle)
        columns = self.columns(replica.job, table)
        for i in range(count):
            row = replica.job.rows.setdefault((table, rows[i]), numpy.full(columns, rows[i], "f4"))
            for j in range(columns):
                values[i * columns + j] = row[j]
        kind, changed, discarded = self.row_events.pop(0) if self.row_events else (GO, 0, 0)
        if discarded:
            replica.job.released = replica.drawn + replica.job.released
            replica.drawn = []
        return code or self._tell("fetch_rows", replica, event, kind, changed, discarded)

    def monsoon_push_rows(self, handle, table, rows, count, values):
        code, replica = self._begin("push_rows"), self._replica(handle)
        columns = self.columns(replica.job, table)
        for i in range(count):
            gradient = numpy.array([values[i * columns + j] for j in range(columns)], "f4")
            replica.row_gradients.append((table, rows[i], gradient))
        return code

    @staticmethod
    def columns(job, table):
        return int(re.findall(r"columns: (\d+)", job.tables)[table])

    def monsoon_report_evaluation(self, handle, metrics, count, failure, event):
        code, replica = self._begin("report_evaluation"), self._replica(handle)
        self.reports.append(({metrics[i].name.decode(): metrics[i].value for i in range(count)},
                             failure and failure.decode()))
        return code or self._tell("report_evaluation", replica, event,
                                  ENDED if replica.job.ended else GO)

    def monsoon_report_divergence(self, handle, what, event):
        """Ends the program's part in the job."""
        replica = self._replica(handle)
        code = self._begin("report_divergence")
        if code == 0 and not self.reports_again:
            self.error = b"job gpt-1 goes on without this program: " + what
            return 11
        self.reports_again = False
        return code or self._tell("report_divergence", replica, event, GO)

    def monsoon_wait(self, handle, batch, event):
        self._begin("wait")
        replica = self._replica(handle)
        kind, changed, discarded, samples = replica.pending
        return self._tell("wait", replica, event, kind, changed, discarded, batch, samples)

    def monsoon_get_stats(self, handle, stats):
        replica = self._replica(handle)
        stats._obj.steps, stats._obj.replicas = replica.steps, self.programs
        stats._obj.staleness, stats._obj.refused = -1, replica.refused
        stats._obj.sessions = 1
        stats._obj.local_steps = replica.told_steps or replica.job.local_steps
        return self._begin("get_stats")

    def monsoon_leave(self, handle):
        replica = self._replica(handle)
        replica.left = True
        replica.job.released = replica.drawn + replica.job.released
        replica.drawn = []
        return self._begin("leave")

    def monsoon_free(self, handle):
        self.freed.append(handle.value)
