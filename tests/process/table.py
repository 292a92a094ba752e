"""The checks, in the order in which a stage runs them, and what each is run with.

A module may stand in several rows, each with a name of its own.
"""

from typing import NamedTuple

# tests/run.sh calls each but the last.
STAGES = {
    "python": "the Python package's own tests, with programs of --config=opt",
    "gpu": "GPUs, which are emulated, and kernels, with programs of --config=opt",
    "process": "programs of --config=opt",
    "failpoints": "programs of --config=opt --config=failpoints",
    "wheel": "programs of --config=opt --config=wheel, on Debian 12",
    "by_hand": "programs of --config=opt",
}

TAGS = {
    "deaths": "kills or stops processes",
    "full": "left out of a stage that runs without --full",
    "python": "of Python programs that join a job",
    "timing": "has limits of time, which a machine with other work may miss",
}


class Row(NamedTuple):
    name: str
    module: str  # of this package
    arguments: tuple = ()
    with_full: tuple = ()  # in place of `arguments`; none: as without --full
    stage: str = "process"
    tags: frozenset = frozenset()
    limit_s: int = 3600

    def arguments_of(self, full):
        return self.with_full if full and self.with_full else self.arguments


def row(name, *tags, module="", **fields):
    return Row(name, module or name, tags=frozenset(tags), **fields)


# With --full, of those that train for long.
_HOURS = 4 * 3600
# Of deaths with jobs in which each push is of several steps.
_FEW_DEATHS = ("--kills=2", "--coordinator_kills=1", "--stops=0", "--new_starts=0")
# Of the ledger: what its first row does with all faults, the others do with these.
_FEW_FAULTS = ("--ps_kills=2", "--coordinator_kills=1", "--stops=0", "--long_stops=0",
               "--full_disks=0")
_MORE_FAULTS = ("--ps_kills=8", "--coordinator_kills=4")


def _ledger(job, worker_kills):
    given = (f"--job={job}", f"--worker_kills={worker_kills}")
    return row(f"ledger_{job}", "deaths", module="ledger", arguments=given + _FEW_FAULTS,
               with_full=given + _MORE_FAULTS)


TABLE = (
    row("python_tests", stage="python"),
    row("emulated_jobs", stage="gpu", limit_s=_HOURS),
    row("first_run", "timing", stage="gpu"),
    row("kernel_resources", stage="gpu", arguments=("--arch=90",), with_full=("--arch=all",)),
    row("kept_models"),
    row("earlier_state"),
    row("deaths", "deaths"),
    row("deaths_grpc", "deaths", module="deaths", arguments=("--transport=grpc",)),
    row("batch_deaths", "deaths"),
    row("deaths_rounds", "deaths", module="deaths",
        arguments=("--job=rounds", *_FEW_DEATHS, "--drains=0")),
    row("old_parts", "deaths"),
    row("given_up", "deaths"),
    row("rounds_restarts", "deaths", with_full=("--restarts=15",)),
    row("deaths_streaming", "deaths", module="deaths",
        arguments=("--job=streaming", *_FEW_DEATHS, "--drains=1")),
    row("ledger", "deaths"),
    _ledger("rounds", worker_kills=2),
    _ledger("nesterov", worker_kills=0),
    _ledger("rows", worker_kills=2),
    row("chaos_demo", "deaths", "timing"),
    row("compared_modes", "deaths"),
    row("together", "deaths", with_full=("--faults=60",)),
    row("killed_programs", "deaths", "python",
        with_full=("--kills=50", "--sidecar_kills=20", "--ps_kills=5", "--coordinator_kills=5",
                   "--writer_kills=20")),
    row("presets", "full", limit_s=_HOURS),
    row("cut_links", "python", "timing"),
    row("machines", "python"),
    row("members", "python"),
    row("local_users"),
    row("mistakes"),
    row("whose_disk"),
    row("hostile_clients", "timing"),
    row("hostile_members", "timing", with_full=("--seconds=5", "--connections=2000",
                                                "--files", "1024", "128")),
    row("changed_settings", "deaths"),
    row("bounds", "deaths", "python", with_full=("--steps=1200", "--kills=12")),
    row("uneven_speeds", "full", "python", "timing"),
    row("soak", "full", "deaths", "python", limit_s=_HOURS),
    row("kill_points", "deaths", stage="failpoints"),
    row("killed_at_points", "deaths", "python", module="killed_programs",
        arguments=("--points",), stage="failpoints"),
    row("wheel", "python", stage="wheel"),
    row("large_set", stage="by_hand"),
    row("trainers", "deaths", "python", stage="by_hand", limit_s=_HOURS),
)


def named(name):
    """The row; None: there is none of that name."""
    return next((found for found in TABLE if found.name == name), None)


def of_stage(stage, full, tag=""):
    return [found for found in TABLE if found.stage == stage and
            (full or "full" not in found.tags) and (not tag or tag in found.tags)]
