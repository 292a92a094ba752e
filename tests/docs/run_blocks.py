#!/usr/bin/python3
"""Runs the command blocks of the documentation, from their own text.

    run_blocks.py --bin=DIR [--bazel='bazel ...'] [--list] [DOCUMENT.md ...]

Each fenced block says what it is, after its fence:

    sh                 commands. The blocks of one document run in order in one
                       bash, each line of them as a reader would type it.
    sh no-ci: REASON   commands that CI does not run: they need a GPU or several
                       machines, install something or take over two minutes. Counted as
                       skipped.
    LANGUAGE file=NAME what the text asks the reader to save under that name.
    text, or another   shown only.

A document's blocks run in a scratch folder with the repository's files, a copy of
configs/ whose cluster addresses are free ports, and bazel-bin, so documents run
beside each other and beside a cluster on the usual ports. A block that ends with
a command in the background (`up &`) is followed by a wait until those ports
answer. What is still running at the end of a document is ended. `bazel` builds in
the repository itself, with the options of --bazel.

A block fails if a command of it fails, if it takes more than two minutes, or if
its fence does not say what it is. Last line: `docs: N passed, N failed, N
skipped`; exit 1 if any failed or none ran.
"""

import argparse
import os
import re
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BLOCK_DEADLINE_S = 120
START_DEADLINE_S = 30
END_DEADLINE_S = 20
TAIL_LINES = 30
FENCE = re.compile(r"^(\s*)```+\s*(.*)$")
REASONS = ("GPU", "installs", "over two minutes", "several machines")


class Block:
    """A fenced block: `line` counts from 1, `info` is what follows the fence."""

    def __init__(self, document, line, info):
        self.document, self.line, self.info = document, line, info.strip()
        self.text = ""

    @property
    def place(self):
        return f"{self.document}:{self.line}"

    @property
    def language(self):
        return self.info.split(" ", 1)[0]

    @property
    def file_name(self):
        found = re.search(r"\bfile=(\S+)", self.info)
        return found.group(1) if found else None

    @property
    def no_ci(self):
        """The reason, or None."""
        found = re.search(r"\bno-ci:?\s*(.*)$", self.info)
        return found.group(1).strip() if found else None

    def mistake(self):
        """What is wrong with the fence, or None."""
        if not self.info:
            return "the fence does not say what the block is: sh, text, ..."
        if self.no_ci is not None and not self.no_ci.startswith(REASONS):
            return f"no-ci without a reason that begins with one of: {', '.join(REASONS)}"
        if self.file_name and os.path.basename(self.file_name) != self.file_name:
            return f"file={self.file_name} is no plain name"
        return None


def blocks_of(document, text):
    found, block, indent = [], None, ""
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if block is None and fence:
            indent = fence.group(1)
            block = Block(document, number, fence.group(2))
        elif block is not None and fence and not fence.group(2):
            found.append(block)
            block = None
        elif block is not None:
            block.text += line.removeprefix(indent) + "\n"
    if block is not None:
        block.info = ""
        found.append(block)
    return found


def free_ports(count):
    """Ports that nobody listened on a moment ago."""
    sockets = []
    for _ in range(count):
        one = socket.socket()
        one.bind(("127.0.0.1", 0))
        sockets.append(one)
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Scratch:
    """The folder in which a document's blocks run."""

    def __init__(self, binaries, bazel):
        self.folder = tempfile.mkdtemp(prefix="monsoon_docs.")
        self.ports = []
        for name in os.listdir(REPOSITORY):
            if name not in ("configs", ".git") and not name.startswith("bazel-"):
                os.symlink(os.path.join(REPOSITORY, name), os.path.join(self.folder, name))
        shutil.copytree(os.path.join(REPOSITORY, "configs"), os.path.join(self.folder, "configs"))
        self._move_ports(os.path.join(self.folder, "configs", "cluster"))
        if binaries:
            os.symlink(os.path.abspath(binaries), os.path.join(self.folder, "bazel-bin"))
        os.mkdir(os.path.join(self.folder, ".bin"))
        wrapper = os.path.join(self.folder, ".bin", "bazel")
        with open(wrapper, "w", encoding="utf-8") as file:
            # With the PATH of whoever runs this: else the wrapper finds itself, and Bazel
            # compiles again what it compiled under another PATH.
            file.write('#!/bin/bash\n# Builds in the repository.\n'
                       f'cd {REPOSITORY!r}\nexport PATH={shlex.quote(os.environ["PATH"])}\n'
                       f'command="$1"; shift\nexec {bazel} "$command" '
                       '${MONSOON_DOCS_BAZEL_OPTIONS:-} "$@"\n')
        os.chmod(wrapper, 0o755)

    def _move_ports(self, clusters):
        for name in os.listdir(clusters):
            path = os.path.join(clusters, name)
            if not name.endswith(".textproto"):
                continue
            with open(path, encoding="utf-8") as file:
                text = file.read()
            old = re.findall(r'127\.0\.0\.1:(\d+)"', text)
            new = dict(zip(old, free_ports(len(old))))
            text = re.sub(r'127\.0\.0\.1:(\d+)"', lambda m: f'127.0.0.1:{new[m.group(1)]}"', text)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            if name == "localhost.textproto":
                self.ports = list(new.values())

    def environment(self):
        changed = dict(os.environ)
        changed["PATH"] = os.path.join(self.folder, ".bin") + ":/usr/bin:" + changed.get("PATH", "")
        changed.pop("MONSOON_CLUSTER", None)
        changed["MONSOON_STATE_DIR"] = os.path.join(self.folder, ".state")
        changed["MONSOON_CREDENTIALS"] = os.path.join(self.folder, ".credentials")
        return changed

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class Shell:
    """One bash that runs a document's blocks."""

    def __init__(self, scratch):
        self.scratch = scratch
        self.log = open(os.path.join(scratch.folder, ".log"), "w+", encoding="utf-8",
                        errors="replace")
        reading, writing = os.pipe()
        self.done = reading
        self.process = subprocess.Popen(
            ["bash", "-eu", "-o", "pipefail"], cwd=scratch.folder, env=scratch.environment(),
            stdin=subprocess.PIPE, stdout=self.log, stderr=subprocess.STDOUT, pass_fds=[writing],
            start_new_session=True, text=True)
        self.writing = writing
        os.close(writing)

    def run(self, block):
        """None, or what went wrong."""
        path = os.path.join(self.scratch.folder, ".block.sh")
        with open(path, "w", encoding="utf-8") as file:
            file.write(block.text)
        began = self.log.seek(0, os.SEEK_END)
        try:
            # The block's programs must not hold the pipe that tells its end.
            self.process.stdin.write(f". ./.block.sh </dev/null {self.writing}>&-\n"
                                     f"echo done >&{self.writing}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return "the shell has ended"
        with selectors.DefaultSelector() as selector:
            selector.register(self.done, selectors.EVENT_READ)
            if not selector.select(BLOCK_DEADLINE_S):
                return f"took more than {BLOCK_DEADLINE_S} s" + self._tail(began)
        if not os.read(self.done, 64):
            return f"ended with status {self.process.wait()}" + self._tail(began)
        if re.search(r"&\s*(#.*)?$", block.text.strip()):
            return self._wait_for_ports(began)
        return None

    def _wait_for_ports(self, began):
        deadline = time.monotonic() + START_DEADLINE_S
        for port in self.scratch.ports:
            while True:
                with socket.socket() as one:
                    if one.connect_ex(("127.0.0.1", port)) == 0:
                        break
                if time.monotonic() > deadline:
                    return f"nobody answers on port {port}" + self._tail(began)
                time.sleep(0.1)
        return None

    def _tail(self, began):
        self.log.flush()
        self.log.seek(began)
        lines = self.log.read().splitlines()
        return "\n" + "\n".join(f"  | {line}" for line in lines[-TAIL_LINES:])

    def close(self):
        """Ends what the blocks left running: the session's processes."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                break
            deadline = time.monotonic() + END_DEADLINE_S
            while time.monotonic() < deadline:
                self.process.poll()
                try:
                    os.killpg(self.process.pid, 0)
                except ProcessLookupError:
                    break
                time.sleep(0.1)
        self.process.stdin.close()
        self.process.wait()
        os.close(self.done)
        self.log.close()


class Counts:
    passed = failed = skipped = 0

    def failure(self, place, text):
        self.failed += 1
        print(f"FAILED {place}: {text}", flush=True)


def run_document(document, blocks, options, counts):
    wrong = [block for block in blocks if block.mistake()]
    for block in wrong:
        counts.failure(block.place, block.mistake())
    commands = [block for block in blocks if block.language == "sh" and block not in wrong]
    for block in commands:
        if block.no_ci is not None:
            counts.skipped += 1
            print(f"SKIPPED {block.place}: {block.no_ci}", flush=True)
    if options.list or not any(block.no_ci is None for block in commands):
        for block in commands:
            if options.list and block.no_ci is None:
                print(f"{block.place}: {block.text.splitlines()[0]} ...")
        return
    scratch = Scratch(options.bin, options.bazel)
    shell = Shell(scratch)
    try:
        broken = False
        for block in blocks:
            if block in wrong:
                continue
            if block.file_name and block.language != "sh":
                path = os.path.join(scratch.folder, block.file_name)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(block.text)
                continue
            if block not in commands or block.no_ci is not None:
                continue
            if broken:
                counts.failure(block.place, "a block before it failed")
                continue
            began = time.monotonic()
            problem = shell.run(block)
            if problem is None:
                counts.passed += 1
                print(f"passed {block.place} ({time.monotonic() - began:.1f} s)", flush=True)
            else:
                broken = True
                counts.failure(block.place, problem)
    finally:
        shell.close()
        scratch.remove()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--bin", help="what bazel-bin is")
    parser.add_argument("--bazel", default="bazel", help="the command and its startup options")
    parser.add_argument("--list", action="store_true", help="runs nothing")
    parser.add_argument("documents", nargs="*")
    options = parser.parse_args()
    documents = options.documents
    if not documents:
        os.chdir(REPOSITORY)
        documents = ["README.md", "CONTRIBUTING.md", "SECURITY.md"] + sorted(
            os.path.join("docs", name) for name in os.listdir("docs") if name.endswith(".md"))
    counts = Counts()
    for document in documents:
        with open(document, encoding="utf-8") as file:
            run_document(document, blocks_of(document, file.read()), options, counts)
    print(f"docs: {counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    return 1 if counts.failed or (not counts.passed and not options.list) else 0


if __name__ == "__main__":
    sys.exit(main())
