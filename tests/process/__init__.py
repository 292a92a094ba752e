"""Checks that run the real programs as a user does. table.py has them all.

    python3 -m tests.process NAME [OPTIONS]

A check is a module with run(checks, options), which counts by `checks` (tests/tools/checks.py),
and, where it takes options beside those that all have, add_options(parser).
"""
