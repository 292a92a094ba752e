#!/usr/bin/python3
"""run_blocks.py on small documents: what passes, fails and is skipped."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

RUNNER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run_blocks.py")


class RunBlocks(unittest.TestCase):
    def run_text(self, text, status=0, options=()):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "page.md")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            ran = subprocess.run([sys.executable, RUNNER, *options, path], stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, timeout=100, check=False)
        self.assertEqual(ran.returncode, status, ran.stdout)
        return ran.stdout

    def test_blocks_share_a_shell_and_a_folder(self):
        out = self.run_text("```sh\nx=5\necho hello >made\n```\nand\n"
                            "```sh\ntest $x = 5 && grep -q hello made && test -f README.md\n```\n")
        self.assertIn("docs: 2 passed, 0 failed, 0 skipped", out)

    def test_any_failing_command_fails_its_block_and_those_behind_it(self):
        out = self.run_text("```sh\necho seen\nfalse\necho unseen\n```\n```sh\ntrue\n```\n", 1)
        self.assertIn("page.md:1: ended with status 1\n  | seen\n", out)
        self.assertNotIn("| unseen", out)
        self.assertIn("page.md:6: a block before it failed", out)
        self.assertIn("docs: 0 passed, 2 failed, 0 skipped", out)

    def test_a_failure_in_a_pipe_counts(self):
        self.assertIn("1 failed", self.run_text("```sh\nfalse | cat\n```\n", 1))

    def test_files_are_written_and_other_languages_are_not_run(self):
        out = self.run_text("```python file=my.py\nprint('made')\n```\n```text\nfalse\n```\n"
                            "```sh\npython3 my.py | grep -q made\n```\n")
        self.assertIn("docs: 1 passed, 0 failed, 0 skipped", out)

    def test_marked_blocks_are_skipped_with_their_reason(self):
        out = self.run_text("```sh\ntrue\n```\n```sh no-ci: GPU workers\nfalse\n```\n")
        self.assertIn("page.md:4: GPU workers", out)
        self.assertIn("docs: 1 passed, 0 failed, 1 skipped", out)

    def test_a_mark_needs_one_of_the_reasons(self):
        self.assertIn("no-ci without a reason", self.run_text("```sh no-ci\nfalse\n```\n", 1))
        self.assertIn("no-ci without a reason", self.run_text("```sh no-ci: slow\nx\n```\n", 1))

    def test_a_fence_must_say_what_it_is(self):
        self.assertIn("does not say", self.run_text("```\nfalse\n```\n", 1))
        self.assertIn("does not say", self.run_text("```sh\nnever closed\n", 1))

    def test_the_fences_of_our_own_pages_are_right(self):
        """Long before CI runs what is behind them."""
        ran = subprocess.run([sys.executable, RUNNER, "--list"], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, timeout=100, check=False)
        self.assertEqual(ran.returncode, 0, ran.stdout)

    def test_a_page_without_commands_is_no_success(self):
        self.assertIn("docs: 0 passed", self.run_text("nothing\n", 1))

    def test_bazel_is_the_one_that_was_given(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "bazel")
            with open(program, "w", encoding="utf-8") as file:
                file.write('#!/bin/bash\necho "PATH=$PATH ran: $*"\n')
            os.chmod(program, 0o755)
            path, os.environ["PATH"] = os.environ["PATH"], folder + ":" + os.environ["PATH"]
            try:
                out = self.run_text("```sh\nbazel build //x | tee ran >&2\n"
                                    f"grep -q '^PATH={folder}:.* ran: --slow build //x$' ran\n"
                                    "```\n", options=["--bazel=bazel --slow"])
            finally:
                os.environ["PATH"] = path
        self.assertIn("docs: 1 passed", out)

    def test_nothing_stays_running(self):
        out = self.run_text("```sh\nsleep 1000 & echo $! >&2\nfalse\n```\n", 1)
        pid = re.search(r"\| (\d+)", out).group(1)
        self.assertFalse(os.path.exists(f"/proc/{pid}"))


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=0).result
    bad = len(result.failures) + len(result.errors)
    print(f"selftest: {result.testsRun - bad} passed, {bad} failed")
    sys.exit(1 if bad else 0)
