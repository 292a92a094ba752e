"""What the benchmarks share: paired ratios, the table, and who else used the
machine meanwhile.

A benchmark is a function that takes the options and gives rows; run_program
makes a program of it, run_all.py runs all of them.
"""

import argparse
import dataclasses
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import time

import instructions

ROUNDS = 7
COLUMNS = ("workload", "size", "threads", "ours", "reference", "unit", "ratio", "min", "max",
           "rounds", "CPU s ours/ref", "verified", "target", "met")


@dataclasses.dataclass
class Wanted:
    """What the median of a row's ratios is held against."""
    sign: str  # "at least" or "at most"
    bound: float
    aim: float = None

    def __str__(self):
        aim = "" if self.aim is None else f", aim {self.aim:g}"
        return f"{self.sign} {self.bound:g}{aim}"

    def holds(self, value):
        return value >= self.bound if self.sign == "at least" else value <= self.bound


def at_least(bound, aim=None):
    return Wanted("at least", bound, aim)


def at_most(bound):
    return Wanted("at most", bound)


@dataclasses.dataclass
class Row:
    """One line of the table. Either `ratios` has a value a round, or `why` says
    why there is none. `ours` and `reference` are medians in `unit`, the
    reference with its name. `cpu`: CPU seconds of both, by the unit of work that
    it names. `wanted` None: the figure is only stated. A row that has ratios is
    of results that were checked while they were timed, else the benchmark would
    have failed."""
    workload: str
    size: str = ""
    threads: str = ""
    ours: str = ""
    reference: str = ""
    unit: str = ""
    ratios: list = dataclasses.field(default_factory=list)
    wanted: Wanted = None
    cpu: str = ""
    why: str = ""

    def __post_init__(self):
        if bool(self.ratios) == bool(self.why):
            raise ValueError(f"{self.workload}: either ratios or a reason, not {self.ratios}, "
                             f"{self.why!r}")

    def reached(self):
        if self.why or self.wanted is None:
            return None
        return self.wanted.holds(statistics.median(self.ratios))

    def line(self):
        if self.why:
            figures = ["not measured: " + self.why, "", "", ""]
        else:
            figures = [number(statistics.median(self.ratios)), number(min(self.ratios)),
                       number(max(self.ratios)), str(len(self.ratios))]
        met = {None: "-", True: "yes", False: "**no**"}[self.reached()]
        cells = [self.workload, self.size, self.threads, self.ours, self.reference, self.unit,
                 *figures, self.cpu or "-", "-" if self.why else "yes",
                 "stated" if self.wanted is None else str(self.wanted), met]
        return table_line(cell.replace("|", "/").replace("\n", " ") for cell in cells)


def table_line(cells):
    return "| " + " | ".join(cells) + " |"


def number(value):
    """Three significant digits, thousands grouped."""
    if abs(value) >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def median_of(column):
    return number(statistics.median(column))


def table(rows):
    return "\n".join([table_line(COLUMNS), "|" + "---|" * len(COLUMNS)] +
                     [row.line() for row in rows])


def paired(over, under):
    """The ratios of two columns of a run, round by round."""
    if len(over) != len(under) or not over:
        raise ValueError(f"columns of {len(over)} and {len(under)} rounds")
    return [a / b for a, b in zip(over, under)]


def best(columns):
    """The name of the column with the smallest median."""
    return min(columns, key=lambda name: statistics.median(columns[name]))


def together(answers):
    """Examples a second while all trained: without the last step of each, in which some ways
    wait for the end of the others. NaN if they never did, as where one got all leases."""
    if min(len(answer["ends"]) for answer in answers) < 2:
        return math.nan
    begin = max(answer["ends"][0] for answer in answers)
    end = min(answer["ends"][-2] for answer in answers)
    if end <= begin:
        return math.nan
    return sum(examples for answer in answers
               for when, examples in zip(answer["ends"], answer["examples"])
               if begin < when <= end) / (end - begin)


def busy_seconds(stat):
    """CPU seconds that all cores were not idle, from the text of /proc/stat.
    Guest time is within user time already; stolen time is not ours to use."""
    fields = [int(field) for field in stat.splitlines()[0].split()[1:9]]
    user, nice, system, _, _, irq, softirq, steal = fields
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


class LoadMeter:
    """How many cores others kept busy while the block ran: all CPU time less
    that of this process and of its children, which must have ended."""

    def __enter__(self):
        self._begin = self._read()
        self.cores = None
        return self

    def __exit__(self, *unused):
        wall, busy, own = (end - begin for begin, end in zip(self._begin, self._read()))
        self.cores = max(0.0, (busy - own) / wall) if wall > 0 else 0.0

    @staticmethod
    def _read():
        with open("/proc/stat", encoding="ascii") as file:
            busy = busy_seconds(file.read())
        own = 0.0
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
            usage = resource.getrusage(who)
            own += usage.ru_utime + usage.ru_stime
        return time.monotonic(), busy, own


def memory_files(pid):
    """Device and inode of each memory file (memfd_create) that a process maps."""
    files = set()
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        for line in maps:
            fields = line.split()
            if len(fields) > 5 and fields[5].startswith("/memfd:"):
                files.add((fields[3], fields[4]))
    return files


def cpu_name():
    return instructions.cpu_facts().get("model name", "unknown")


def commit_name():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    return subprocess.run(["git", "-c", "safe.directory=*", "describe", "--always", "--dirty"],
                          cwd=root, capture_output=True, text=True,
                          check=False).stdout.strip() or "unknown"


def machine():
    """The machine and the source, in words."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (f"CPU {cpu_name()} ({instructions.level()}), {os.cpu_count()} cores, {memory:.0f} "
            f"GiB, kernel {platform.release()}, load {os.getloadavg()[0]:.2f}, commit "
            f"{commit_name()}")


def log(text):
    print(text, file=sys.stderr, flush=True)


def options_parser(doc):
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true",
                        help="tiny runs: to see that all works, not to quote")
    parser.add_argument("--json", help="write the rows there too")
    parser.add_argument("--simd", choices=instructions.LEVELS,
                        help="limits ours and the peers to these instructions")
    return parser


def apply_limit(parser, options):
    """What --simd says, for all programs from here on."""
    if options.simd is not None:
        try:
            instructions.limit(options.simd)
        except ValueError as error:
            parser.error(f"--simd: {error}")


def measured(measure, options):
    """Runs one benchmark: its rows, and the cores that others kept busy."""
    with LoadMeter() as meter:
        rows = measure(options)
    return rows, meter.cores


def report(rows, foreign_load, options):
    """The machine and the table, as Markdown. `foreign_load`: {benchmark: cores}."""
    text = f"{machine()}; {options.rounds} rounds"
    if options.quick:
        text += "; --quick, not to be quoted"
    load = ", ".join(f"{name} {cores:.2f}" for name, cores in foreign_load.items())
    return (f"{text}.\nForeign load, in cores: {load}.\n"
            f"Ratios are paired within a round; CPU seconds are of both sides.\n\n{table(rows)}\n")


def write_json(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        json.dump([dataclasses.asdict(row) for row in rows], file, indent=1)


def run_program(measure, parser):
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    apply_limit(parser, options)
    rows, foreign_load = measured(measure, options)
    print(report(rows, {os.path.basename(sys.argv[0]): foreign_load}, options))
    if options.json:
        write_json(options.json, rows)
