"""Runs checks of the real programs, from the root of the tree:

    python3 -m tests.process NAME [--bin=DIR] [--full] [OPTIONS]   one check; --help tells its own
    python3 -m tests.process --list                                all of table.py
    python3 -m tests.process --stage=STAGE [--tag=TAG] [--bin=DIR] [--full]

--bin   what bazel-bin is, where the programs have been built; default $MONSOON_BIN or bazel-bin.
--full  as tests/run.sh --full: with the arguments that table.py has for it.

Options come after those of the table, and so before them in rank. The last line of a check is
`NAME: N passed, N failed, N skipped`, that of a stage the same with its own name. Exit 1 if any
failed or none ran.
"""

import argparse
import importlib
import os
import pathlib
import sys
import tempfile

from tests.process import runner, table
from tests.tools.checks import Checks, Unusable
from tests.tools.local_cluster import BIN, ROOT


def add_common_options(parser):
    parser.add_argument("--bin", type=pathlib.Path, default=BIN,
                        help="what bazel-bin is, where the programs have been built")
    parser.add_argument("--full", action="store_true", help="more of it, where there is more")


def options_of(row, module, arguments):
    """Of the row, and then of `arguments`."""
    parser = argparse.ArgumentParser(prog=f"python3 -m tests.process {row.name}",
                                     description=module.__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_common_options(parser)
    if hasattr(module, "add_options"):
        module.add_options(parser)
    given = [*row.arguments_of("--full" in arguments), *arguments]
    if getattr(module, "TAKES_OTHERS", False):
        options, options.others = parser.parse_known_args(given)
    else:
        options = parser.parse_args(given)
    options.bin = options.bin.resolve()
    return options


def run_check(row, module, arguments):
    """The exit code."""
    options = options_of(row, module, arguments)
    checks = Checks(row.name)
    # Clusters on the loopback make their authority where this user keeps such.
    with tempfile.TemporaryDirectory(prefix="monsoon-") as credentials:
        os.environ["MONSOON_CREDENTIALS"] = credentials
        try:
            module.run(checks, options)
        except Unusable as error:
            print(f"{row.name}: {error}", file=sys.stderr)
            return 2
    return checks.summary()


def list_table():
    for stage, what in table.STAGES.items():
        print(f"{stage}: {what}")
        for row in table.TABLE:
            if row.stage == stage:
                words = [row.module, *row.arguments]
                if row.with_full:
                    words += ["[--full:", *row.with_full[:-1], row.with_full[-1] + "]"]
                print(f"  {row.name:20} {','.join(sorted(row.tags)) or '-':22} {' '.join(words)}")
    for tag, what in table.TAGS.items():
        print(f"{tag}: {what}")


def run_stage(options):
    passed_on = [f"--bin={options.bin.resolve()}", *(["--full"] if options.full else [])]
    return runner.run_all(
        options.stage, table.of_stage(options.stage, options.full, options.tag),
        lambda row: [sys.executable, "-m", "tests.process", row.name, *passed_on], ROOT)


def main(arguments):
    # A check leaves nothing in the tree.
    sys.dont_write_bytecode = True
    if arguments and not arguments[0].startswith("-"):
        row = table.named(arguments[0])
        if row is None:
            print(f"tests.process: there is no check {arguments[0]!r}; --list tells them",
                  file=sys.stderr)
            return 2
        return run_check(row, importlib.import_module(f"tests.process.{row.module}"),
                         arguments[1:])
    parser = argparse.ArgumentParser(prog="python3 -m tests.process", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--list", action="store_true", help="the table; runs nothing")
    what.add_argument("--stage", choices=table.STAGES)
    parser.add_argument("--tag", choices=table.TAGS, default="", help="only checks that have it")
    add_common_options(parser)
    options = parser.parse_args(arguments)
    if options.list:
        list_table()
        return 0
    return run_stage(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
