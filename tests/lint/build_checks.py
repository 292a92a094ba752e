"""What BUILD files say: libraries, owners of sources, tags of tests."""

import os

import rules
from source_tree import SOURCE, allowed, strings

RULE_SOURCES = ("srcs", "hdrs", "textual_hdrs")


def check_libraries(tree):
    """System libraries are linked only where rules.py lists it."""
    for path, line, kind, attributes in tree.build_rules():
        for name in strings(attributes.get("deps")):
            users = rules.LIBRARY_USERS.get(name)
            if users is not None and not allowed(path, users):
                yield path, line, f"{kind} may not link {name}; allowed in {users}"


def check_targets(tree):
    """Every source file stands in a target of its package."""
    owned = set()
    for path, _, _, attributes in tree.build_rules():
        folder = os.path.dirname(path)
        for attribute in RULE_SOURCES:
            for name in strings(attributes.get(attribute)):
                owned.add(os.path.normpath(os.path.join(folder, name.lstrip(":"))))
    for path in tree.matching(SOURCE):
        if path not in owned:
            yield path, 1, "is in no BUILD target"


def check_test_tags(tree):
    """Every test has a tag that tests/run.sh runs."""
    for path, line, kind, attributes in tree.build_rules():
        if kind in ("cc_test", "sh_test", "py_test"):
            tags = set(strings(attributes.get("tags")))
            if not tags & rules.TEST_TAGS:
                yield path, line, (f"{attributes.get('name')} has none of the tags "
                                   f"{sorted(rules.TEST_TAGS)}")
