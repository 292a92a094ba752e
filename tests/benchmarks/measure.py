"""What the benchmarks share: paired ratios, the table, and who else used the
machine meanwhile.

A benchmark is a function that takes the options and gives rows; run_program
makes a program of it, run_all.py runs all of them.
"""

import argparse
import dataclasses
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time

ROUNDS = 7
HEADER = ("| work | value | limit or peer | ratio | min | max | wanted | reached | other load |\n"
          "|---|---|---|---|---|---|---|---|---|")


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
    why there is none. `wanted` None: the figure is only stated."""
    work: str
    value: str = ""
    limit: str = ""
    ratios: list = dataclasses.field(default_factory=list)
    wanted: Wanted = None
    why: str = ""
    other_load: float = None

    def __post_init__(self):
        if bool(self.ratios) == bool(self.why):
            raise ValueError(f"{self.work}: either ratios or a reason, not {self.ratios}, "
                             f"{self.why!r}")

    def reached(self):
        if self.why or self.wanted is None:
            return None
        return self.wanted.holds(statistics.median(self.ratios))

    def line(self):
        load = "" if self.other_load is None else f"{self.other_load:.2f}"
        wanted = "stated" if self.wanted is None else str(self.wanted)
        if self.why:
            cells = [self.work, self.value, self.limit, "not measured: " + self.why, "", "",
                     wanted, "-", load]
        else:
            reached = {None: "-", True: "yes", False: "**no**"}[self.reached()]
            cells = [self.work, self.value, self.limit, number(statistics.median(self.ratios)),
                     number(min(self.ratios)), number(max(self.ratios)), wanted, reached, load]
        return "| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in cells) + " |"


def number(value):
    """Three significant digits, thousands grouped."""
    if abs(value) >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def table(rows):
    return "\n".join([HEADER] + [row.line() for row in rows])


def paired(over, under):
    """The ratios of two columns of a run, round by round."""
    if len(over) != len(under) or not over:
        raise ValueError(f"columns of {len(over)} and {len(under)} rounds")
    return [a / b for a, b in zip(over, under)]


def best(columns):
    """The name of the column with the smallest median."""
    return min(columns, key=lambda name: statistics.median(columns[name]))


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
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    return "unknown"


def machine():
    """The machine and the source, in words."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    commit = subprocess.run(["git", "-c", "safe.directory=*", "describe", "--always", "--dirty"],
                            cwd=root, capture_output=True, text=True, check=False).stdout.strip()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (f"CPU {cpu_name()}, {os.cpu_count()} cores, {memory:.0f} GiB, kernel "
            f"{platform.release()}, load {os.getloadavg()[0]:.2f}, commit {commit or 'unknown'}")


def log(text):
    print(text, file=sys.stderr, flush=True)


def options_parser(doc):
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true",
                        help="tiny runs: to see that all works, not to quote")
    parser.add_argument("--json", help="write the rows there too")
    return parser


def measured(measure, options):
    """Runs one benchmark; its rows, each with the load of others meanwhile."""
    with LoadMeter() as meter:
        rows = measure(options)
    return [dataclasses.replace(row, other_load=meter.cores) for row in rows]


def report(rows, options):
    """The machine and the table, as Markdown."""
    text = f"{machine()}; {options.rounds} rounds"
    if options.quick:
        text += "; --quick, not to be quoted"
    return (f"{text}.\nRatios are paired within a round: median, min, max. CPU seconds: of the "
            f"client + of the server. Other load: cores that other programs kept busy.\n\n{table(rows)}\n")


def write_json(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        json.dump([dataclasses.asdict(row) for row in rows], file, indent=1)


def run_program(measure, parser):
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    rows = measured(measure, options)
    print(report(rows, options))
    if options.json:
        write_json(options.json, rows)
