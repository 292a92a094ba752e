"""Checks of lines and of whole files: format, words, scripts, length."""

import os
import re
import shutil
import subprocess

import rules
from source_tree import SOURCE, TEXT, allowed


def check_shell(tree):
    """Shell scripts parse, are strict and can be executed."""
    for path in tree.matching((".sh", ".ci/run", "hooks/pre-commit")):
        full = os.path.join(tree.root, path)
        result = subprocess.run(["bash", "-n", full], stderr=subprocess.PIPE, check=False)
        if result.returncode != 0:
            yield path, 1, result.stderr.decode().strip().splitlines()[0]
        if "set -euo pipefail" not in tree.lines(path):
            yield path, 1, "has no line `set -euo pipefail`"
        if not os.access(full, os.X_OK):
            yield path, 1, "is not executable"


def check_length(tree):
    """No file is too long to read."""
    for path in tree.matching(SOURCE + (".py", ".sh", ".proto", ".bazel", ".bzl")):
        if len(tree.lines(path)) > rules.MAX_LINES:
            yield path, rules.MAX_LINES, f"has {len(tree.lines(path))} lines, over {rules.MAX_LINES}"


def check_data_files(tree):
    """Only DataRoots opens a job's data files, and looks at what their paths lead to."""
    for path in tree.matching((".cc", ".h")):
        if (not path.startswith(rules.DATA_FOLDERS) or allowed(path, rules.DATA_OPENERS)
                or re.search(r"(_test|_fuzz)\.cc$|test_files\.\w+$", path)):
            continue
        for number, line in enumerate(tree.lines(path), 1):
            found = re.search(rules.FILE_OPENS, line.split("//")[0])
            if found:
                yield path, number, f"{found.group(0)!r} by itself: go through DataRoots"


def check_words(tree):
    """No marks of unfinished work, disabled tests or one machine's paths."""
    for path in tree.matching(TEXT):
        for number, line in enumerate(tree.lines(path), 1):
            for pattern in rules.FORBIDDEN_WORDS:
                if re.search(pattern, line):
                    yield path, number, f"holds {re.search(pattern, line).group(0)!r}"


def check_sleeps(tree):
    """Tests wait for events, not for time."""
    for path in tree.matching(("_test.cc",)):
        if allowed(path, [pattern for pattern, _ in rules.SLEEP_ALLOWED]):
            continue
        for number, line in enumerate(tree.lines(path), 1):
            if re.search(rules.SLEEPS, line.split("//")[0]):
                yield path, number, "sleeps; wait for the event with a deadline"


def check_pragma_once(tree):
    """Every header is guarded by #pragma once."""
    for path in tree.matching((".h", ".cuh")):
        if "#pragma once" not in tree.lines(path):
            yield path, 1, "has no #pragma once"


def check_format(tree):
    """clang-format changes nothing."""
    if shutil.which("clang-format") is None:
        yield "deploy/packages.txt", 1, "clang-format is not installed; run deploy/setup.sh"
        return
    files = tree.matching((".cc", ".h"))
    if not files:
        return
    # On all cores.
    parts = os.cpu_count() or 1
    running = [subprocess.Popen(["clang-format", "--dry-run", "--ferror-limit=1", "-Werror"] + part,
                                cwd=tree.root, stderr=subprocess.PIPE)
               for part in (files[i::parts] for i in range(parts)) if part]
    errors = "".join([process.communicate()[1].decode() for process in running])
    seen = set()
    for line in errors.splitlines():
        match = re.match(r"(.*?):(\d+):\d+: (error|warning):", line)
        if match and match.group(1) not in seen:
            seen.add(match.group(1))
            yield match.group(1), int(match.group(2)), "is not formatted; run deploy/format.sh"
    if any(process.returncode for process in running) and not seen:
        yield ".clang-format", 1, "clang-format failed: " + errors[:200]
