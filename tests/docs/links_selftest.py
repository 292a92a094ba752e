#!/usr/bin/python3
"""links.py on small trees: which links it finds dead."""

import os
import subprocess
import sys
import tempfile
import unittest

LINKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "links.py")
INDEX = "# Index\n[a](a.md)\n"


class Links(unittest.TestCase):
    def check(self, pages, status):
        """Runs links.py over `pages`, path -> text, and returns what it says."""
        with tempfile.TemporaryDirectory() as root:
            for name, text in pages.items():
                path = os.path.join(root, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            ran = subprocess.run([sys.executable, LINKS, root], stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, timeout=100, check=False)
        self.assertEqual(ran.returncode, status, ran.stdout)
        return ran.stdout

    def test_live_links_pass(self):
        self.check({"README.md": "[a](docs/a.md#two-words) [b](LICENSE) [c](https://x.org/y#z)\n"
                                 "[d](docs) ![e](docs/e.svg)\n", "LICENSE": "", "docs/e.svg": "",
                    "docs/a.md": "# A\n## Two words\n[up](../README.md) [here](#two-words)\n"}, 0)

    def test_a_missing_file_is_named_with_its_place(self):
        self.assertIn("docs/a.md:3: (b.md): there is no docs/b.md",
                      self.check({"docs/a.md": "# A\n\n[b](b.md)\n"}, 1))

    def test_paths_are_relative_to_the_page(self):
        self.assertIn("there is no docs/docs/a.md",
                      self.check({"docs/a.md": "[a](docs/a.md)\n"}, 1))

    def test_a_missing_section_of_another_page_is_found(self):
        self.assertIn("README.md:1: (docs/a.md#three): docs/a.md has no section three",
                      self.check({"README.md": "[a](docs/a.md#three)\n",
                                  "docs/a.md": "# A\n## Two\n"}, 1))

    def test_a_missing_section_of_the_same_page_is_found(self):
        self.assertIn("(#b): docs/a.md has no section b",
                      self.check({"docs/a.md": "# A\n[b](#b)\n"}, 1))

    def test_a_section_of_what_is_no_page_is_found(self):
        self.assertIn("LICENSE is no page",
                      self.check({"README.md": "[l](LICENSE#one)\n", "LICENSE": "# One\n"}, 1))

    def test_anchors_are_githubs(self):
        self.check({"docs/a.md": "# A `code`, and-more: 1/2\n## Same\n## Same\n"
                                 "## See [b](a.md)\n"
                                 "[1](#a-code-and-more-12) [2](#same) [3](#same-1) [4](#see-b)\n"},
                   0)

    def test_a_heading_in_a_fenced_block_is_none(self):
        self.assertIn("no section not-one",
                      self.check({"docs/a.md": "```sh\n# Not one\n```\n[a](#not-one)\n"}, 1))

    def test_links_in_code_are_none(self):
        self.check({"docs/a.md": "```text\n[a](b.md)\n```\nand `[a](c.md)` and ``[`](d.md)``\n"},
                   0)

    def test_a_link_over_two_lines_is_found(self):
        self.assertIn("docs/a.md:1: (b.md)", self.check({"docs/a.md": "[some\nwords](b.md)\n"}, 1))

    def test_a_page_that_the_index_lacks_is_found(self):
        pages = {"docs/index.md": INDEX, "docs/a.md": "# A\n"}
        self.check(pages, 0)
        self.assertIn("docs/b.md: docs/index.md has no link to it",
                      self.check({**pages, "docs/b.md": "# B\n"}, 1))
        self.check({**pages, "docs/decisions/001.md": "# One\n"}, 0)

    def test_no_page_is_a_failure(self):
        self.assertIn("links: 0 passed", self.check({"docs/none.txt": ""}, 1))


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=0).result
    bad = len(result.failures) + len(result.errors)
    print(f"selftest: {result.testsRun - bad} passed, {bad} failed")
    sys.exit(1 if bad else 0)
