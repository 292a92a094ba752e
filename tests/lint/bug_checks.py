"""The planted bugs of tests/mutations: each still changes its files, beside whose bugs it stands,
and the tests that are to notice it exist."""

import concurrent.futures
import os
import subprocess

FOLDER = "tests/mutations/"
SEPARATOR = " :: "


def check_planted_bugs(tree):
    """Each command changes the files that it names. Whether it compiles tests/mutation.sh says."""
    bugs = [(path, number, line.split(SEPARATOR)) for path in tree.matching((".txt",))
            if path.startswith(FOLDER) for number, line in enumerate(tree.lines(path), 1)
            if line.strip() and not line.strip().startswith("#")]
    for path in tree.matching((".txt",)):
        if path.startswith(FOLDER) and not any(bug[0] == path for bug in bugs):
            yield path, 1, "has no bugs: a merge may have lost them"
    labels = _labels(tree)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        troubles = list(pool.map(lambda bug: _trouble(tree, labels, bug), bugs))
    for (path, number, _), trouble in zip(bugs, troubles):
        if trouble:
            yield path, number, trouble


def _trouble(tree, labels, bug):
    """What is wrong with a bug; "" where nothing is."""
    path, _, fields = bug
    if len(fields) != 4:
        return f"has {len(fields)} fields in place of what :: file :: sed command :: tests"
    _, files, command, tests = (field.strip() for field in fields)
    files = files.split()
    folder = os.path.basename(path)[:-len(".txt")]
    for file in files:
        if file not in tree.files:
            return f"names {file}, which is not there"
    if not files[0].replace("/", "_").startswith(folder + "_"):
        return f"is of {files[0]}, and stands among the bugs of {folder}"
    missing = [test for test in tests.split() if not _is_label(test, labels)]
    if missing:
        return f"names {missing[0]}, which is no test"
    return next(filter(None, (_trouble_in(tree, command, file) for file in files)), "")


def _trouble_in(tree, command, file):
    """What is wrong with the command in one of its files."""
    full = os.path.join(tree.root, file)
    result = subprocess.run(["sed", command, full], check=False, capture_output=True)
    if result.returncode != 0:
        return f"is no sed command: {result.stderr.decode().strip()}"
    with open(full, "rb") as before:
        return "" if result.stdout != before.read() else f"changes nothing in {file}"


def _labels(tree):
    return {f"//{os.path.dirname(path)}:{attributes.get('name')}"
            for path, _, kind, attributes in tree.build_rules() if kind.endswith("_test")}


def _is_label(test, labels):
    if test.endswith(("/...", ":all")):
        start = test[:-len("/...")] if test.endswith("/...") else test[:-len("all")]
        return any(label.startswith(start) for label in labels)
    package = test.split(":")[0]
    return (test if ":" in test else f"{package}:{package.split('/')[-1]}") in labels
