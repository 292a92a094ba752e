#!/usr/bin/python3
"""Finds dead links in the documentation.

    links.py [ROOT]

Reads README.md, CONTRIBUTING.md, CHANGELOG.md and all pages below docs/, and demands of each
link that is not to another site:

    [text](page.md)           there is such a file or folder, relative to the page
    [text](page.md#section)   the page has a heading of that anchor, as GitHub makes it
    [text](#section)          so has this page

Each page of docs/ itself must be linked from docs/index.md, where there is one, since
readers begin there. Text in fenced blocks and in backquotes is no link. A line for each finding;
the exit code is 1 if there is one, or if there is no page.
"""

import os
import re
import sys

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOP_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
INDEX = os.path.join("docs", "index.md")
FENCE = re.compile(r"^\s*(```+|~~~+)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$")
# The text of a link may go over a line's end, and may have brackets of its own.
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^()\s<>]*)>?(?:\s+\"[^\"]*\")?\s*\)")
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:|^//")


def without_fences(text):
    """`text` with the lines of fenced blocks emptied, so that line numbers stay."""
    lines, fence = [], None
    for line in text.splitlines():
        found = FENCE.match(line)
        if fence is None and found:
            fence = found.group(1)
            line = ""
        elif fence is not None:
            if found and line.strip() == found.group(1) and found.group(1).startswith(fence):
                fence = None
            line = ""
        lines.append(line)
    return "\n".join(lines)


def without_code(text):
    """`text` with what stands in backquotes blanked."""
    return re.sub(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)",
                  lambda found: re.sub(r"[^\n]", " ", found.group(0)), text, flags=re.DOTALL)


def anchor(heading):
    """GitHub's anchor of a heading: its text in small letters, blanks as hyphens."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(text):
    found, seen = set(), {}
    for line in without_fences(text).splitlines():
        heading = HEADING.match(line)
        if not heading:
            continue
        name = anchor(heading.group(1))
        count = seen.get(name, 0)
        seen[name] = count + 1
        found.add(f"{name}-{count}" if count else name)
    return found


def links(text):
    """(line, target) of each link and picture."""
    text = without_code(without_fences(text))
    for found in LINK.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, found.group(1)


def pages_of(root):
    pages = [name for name in TOP_PAGES if os.path.exists(os.path.join(root, name))]
    for folder, _, names in os.walk(os.path.join(root, "docs")):
        pages += [os.path.relpath(os.path.join(folder, name), root) for name in names
                  if name.endswith(".md")]
    return sorted(pages)


class Pages:
    """The documentation below a root, each page read once."""

    def __init__(self, root):
        self.root = root
        self.names = pages_of(root)
        self._anchors = {}

    def text(self, name):
        with open(os.path.join(self.root, name), encoding="utf-8") as file:
            return file.read()

    def anchors(self, name):
        if name not in self._anchors:
            self._anchors[name] = anchors(self.text(name))
        return self._anchors[name]

    def target(self, page, path):
        """What a link of `page` to `path` names, relative to the root."""
        return os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page

    def problem(self, page, target):
        """What is wrong with a link, or None."""
        if ELSEWHERE.match(target):
            return None
        path, _, section = target.partition("#")
        name = self.target(page, path)
        if not os.path.exists(os.path.join(self.root, name)):
            return f"there is no {name}"
        if section and not name.endswith(".md"):
            return f"{name} is no page, so it has no section {section}"
        if section and section not in self.anchors(name):
            return f"{name} has no section {section}"
        return None

    def dead_links(self):
        for page in self.names:
            for line, target in links(self.text(page)):
                problem = self.problem(page, target)
                if problem:
                    yield f"{page}:{line}: ({target}): {problem}"

    def unlisted(self):
        if INDEX not in self.names:
            return
        listed = {self.target(INDEX, target.partition("#")[0])
                  for _, target in links(self.text(INDEX)) if not ELSEWHERE.match(target)}
        for page in self.names:
            if os.path.dirname(page) == "docs" and page not in listed | {INDEX}:
                yield f"{page}: {INDEX} has no link to it"


def main():
    pages = Pages(sys.argv[1] if len(sys.argv) > 1 else REPOSITORY)
    findings = list(pages.dead_links()) + list(pages.unlisted())
    for finding in findings:
        print(finding)
    print(f"links: {len(pages.names)} passed, {len(findings)} failed")
    return 1 if findings or not pages.names else 0


if __name__ == "__main__":
    sys.exit(main())
