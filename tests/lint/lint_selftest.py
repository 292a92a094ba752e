#!/usr/bin/python3
"""Plants violations in a small tree and demands that lint.py names each."""

import os
import sys
import tempfile
import unittest
from unittest import mock

import include_checks
import lint
import rules

# A tree without a violation.
CLEAN = {
    ".clang-format": "BasedOnStyle: Google\nColumnLimit: 100\n",
    "common/base/status.h": "#pragma once\n\n#include <string>\n\nnamespace monsoon {\n\n"
                            "class Status {};\n\n}  // namespace monsoon\n",
    "common/base/status.cc": '#include "common/base/status.h"\n',
    "common/base/BUILD.bazel": 'cc_library(\n    name = "status",\n    srcs = ["status.cc"],\n'
                               '    hdrs = ["status.h"],\n)\n',
    "worker/backend/cpu/dense.cc": '#include "common/base/status.h"\n#include "oneapi/dnnl/dnnl.hpp"'
                                   '\n',
    "worker/backend/cpu/BUILD.bazel": 'cc_library(\n    name = "dense",\n    srcs = ["dense.cc"],\n'
                                      '    deps = ["@onednn"],\n)\n',
    "ps_server/server/service_grpc.cc": "#include <grpcpp/grpcpp.h>\n",
    "ps_server/shard_test.cc": "int x;\n",
    "ps_server/server/BUILD.bazel": 'cc_library(\n    name = "service",\n'
                                    '    srcs = ["service_grpc.cc"],\n)\n',
    "ps_server/BUILD.bazel": 'cc_test(\n    name = "shard_test",\n    srcs = ["shard_test.cc"],\n'
                             '    tags = ["unit"],\n)\n',
    "proto/a.proto": "message Other {}\n",
    "proto/b.proto": "message Second {}\n",
    "proto/c.proto": "message Message {}\n",
    "deploy/go.sh": "#!/bin/bash\nset -euo pipefail\ntrue\n",
}


def monsoon(text):
    """`text` in the project's namespace."""
    return f"namespace monsoon {{\n\n{text}\n}}  // namespace monsoon\n"


def class_of(methods=0, members=0, kind="class", name="Wide"):
    """A class with so many of each, as clang-format leaves it."""
    lines = [f"  int Get{i}() const;\n" for i in range(methods)]
    lines += [f"  std::map<int, int> m{i}_;\n" for i in range(members)]
    return "#pragma once\n\n" + monsoon(f"{kind} {name} {{\n public:\n" + "".join(lines) + "};\n")


# A class in two files that call each other.
CIRCLE = {
    "common/base/ring.h": "#pragma once\n\n" + monsoon("class Ring {\n public:\n  void Go();\n"
                                                     "  void Come();\n};\n"),
    "common/base/ring_go.cc": monsoon("void Ring::Go() {\n  Come();\n}\n"),
    "common/base/ring_come.cc": monsoon("void Ring::Come() {\n  this->Go();\n}\n"),
}

# The line above a table of CONTRIBUTING.md.
TO_ADD = "To add an optimizer, as `{}` ({} files, {} of them shipped C++ and proto):\n"

# A planted bug of common/base, but for its end.
BUG = "it is another :: common/base/status.cc :: s/status/state/"


# (check, file that must be named, its content). A source file is put into a
# target of its own unless the check is about that.
PLANTED = [
    ("headers", "ps_server/shard.cc", "#include <grpcpp/server.h>\n"),
    ("headers", "common/rules.h", '#pragma once\n#include "proto/cluster.grpc.pb.h"\n'),
    ("headers", "worker/nn/model.cc", "#include <oneapi/dnnl/dnnl.hpp>\n"),
    ("headers", "worker/nn/model.cc", "#include <dnnl.hpp>\n"),
    ("headers", "worker/nn/model.cc", "#  include <cuda_runtime.h>\n"),
    ("headers", "worker/main.cc", '#include "spdlog/spdlog.h"\n'),
    ("headers", "common/transport/grpc/channel.cc", "#include <openssl/ssl.h>\n"),
    ("headers", "coordinator/solver.cc", "#include <lbfgs.h>\n"),
    ("directions", "common/a.cc", '#include "ps_server/shard.h"\n'),
    ("directions", "common/base/a.cc", '#include "common/transport/grpc/channel.h"\n'),
    ("folders", "common/transport/frame/a.cc", '#include "common/transport/shm/bell.h"\n'),
    ("directions", "ps_server/a.cc", '#include "coordinator/client/client.h"\n'),
    ("directions", "coordinator/a.cc", '#include "ps_server/shard.h"\n'),
    ("directions", "coordinator/a.cc", '#include "worker/worker.h"\n'),
    ("directions", "worker/a.cc", '#include "coordinator/core.h"\n'),
    ("directions", "worker/a.cc", '#include "tests/cluster/cluster.h"\n'),
    ("folders", "common/base/a.cc", '#include "common/transport/frame/exchange.h"\n'),
    ("folders", "worker/data/a.cc", '#include "worker/backend/backend.h"\n'),
    ("folders", "worker/backend/cuda/kernels/a.cc", '#include "worker/backend/cuda/network.h"\n'),
    ("folders", "worker/nn/a_test.cc", '#include "worker/backend/cpu/network.h"\n'),
    ("folders", "coordinator/attic/a.cc", '#include "coordinator/job/job_plan.h"\n'),
    ("one_definition", "worker/a.h", monsoon("class Status {\n};\n")),
    ("one_definition", "worker/a.cc", monsoon("struct Status final : public A,\n"
                                              "                             B {\n};\n")),
    ("one_definition", "worker/a.cc", monsoon("enum class Status { kOk };\n")),
    ("one_definition", "worker/a.cc", monsoon("template <typename T>\nclass Status {};\n")),
    ("one_definition", "worker/a.cc", monsoon("class ABSL_LOCKABLE Status {};\n")),
    ("one_definition", "worker/a.cc", monsoon("struct alignas(64) Status {};\n")),
    ("one_definition", "worker/a.cc", monsoon("namespace {\n\nint x;\nint y;\n\n}  // namespace\n"
                                              "\nclass Status {};\n")),
    ("libraries", "ps_server/extra/BUILD.bazel", 'cc_library(name = "a", deps = ["@onednn"])\n'),
    ("libraries", "coordinator/BUILD.bazel", 'cc_binary(name = "a", deps = ["@openssl"])\n'),
    ("libraries", "worker/BUILD.bazel", 'cc_binary(name = "a", deps = ["@spdlog"])\n'),
    ("targets", "common/lost.cc", "int y;\n"),
    ("targets", "common/base/lost.cc", "int y;\n"),
    ("targets", "common/lost.h", "#pragma once\n"),
    ("test_tags", "common/BUILD.bazel", 'cc_test(name = "a_test", srcs = [], tags = ["slow"])\n'),
    ("test_tags", "common/BUILD.bazel", 'cc_test(name = "a_test", srcs = [])\n'),
    ("shell", "deploy/broken.sh", "#!/bin/bash\nset -euo pipefail\nif true; then\n"),
    ("shell", "deploy/lax.sh", "#!/bin/bash\ntrue\n"),
    ("length", "common/long.cc", "int x;\n" * (rules.MAX_LINES + 1)),
    ("words", "common/a.cc", "// TO" + "DO: later\n"),
    ("words", "docs/a.md", "See /ho" + "me/me/notes.\n"),
    ("words", "common/a_test.cc", "TEST(A, DISAB" + "LED_B) {}\n"),
    ("sleeps", "common/a_test.cc", "void F() { std::this_thread::sleep_for(1ms); }\n"),
    ("sleeps", "common/a_test.cc", "void F() { absl::SleepFor(absl::Seconds(1)); }\n"),
    ("sleeps", "common/a_test.cc", "void F() { usleep(10); }\n"),
    ("pragma_once", "common/a.h", "int x;\n"),
    ("format", "common/a.cc", "int   x ;\n"),
    ("width", "common/a.h", class_of(methods=rules.MAX_METHODS + 1)),
    ("width", "common/a.h", class_of(members=rules.MAX_MEMBERS + 1)),
    ("functions", "common/a.cc", "void F() {\n" + "  G();\n" * rules.MAX_FUNCTION_LINES + "}\n"),
    ("functions", "tests/a.py", "def f():\n" + "    g()\n" * rules.MAX_FUNCTION_LINES),
    ("pointers", "common/a.cc", "// As lost.h says it.\n"),
    ("pointers", "common/a.cc", "int x;  // common/lost/status.h\n"),
    ("pointers", "common/a.cc", "/* As in\n * lost.proto. */\n"),
    ("pointers", "proto/a.proto", "message Other {}\n// (proto/b.proto, Message)\n"),
    ("pointers", "common/a.cc", "// Its formulas stand beside Message in\n// b.proto.\n"),
    ("pointers", "tests/a.py", '"""As lost.py does."""\n'),
    ("pointers", "deploy/go.sh", "#!/bin/bash\nset -euo pipefail\n# As lost.sh does.\n"),
    ("data_files", "common/data/own_source.cc", "std::ifstream file(path);\n"),
    ("data_files", "worker/data/own_reader.cc", "const int file = open(path.c_str(), 0);\n"),
    ("planted_bugs", "tests/mutations/common_base.txt", "# none\n"),
    ("planted_bugs", "tests/mutations/common_base.txt", BUG + "\n"),
    ("planted_bugs", "tests/mutations/common_base.txt", BUG + " :: //ps_server:lost_test\n"),
    ("planted_bugs", "tests/mutations/common_base.txt",
     BUG.replace("s/status", "s/no such") + " :: //ps_server:shard_test\n"),
    ("planted_bugs", "tests/mutations/common_base.txt",
     BUG.replace("s/status", "y/status") + " :: //ps_server:shard_test\n"),
    ("planted_bugs", "tests/mutations/common_base.txt",
     BUG.replace("base/status", "base/lost") + " :: //ps_server:shard_test\n"),
    ("planted_bugs", "tests/mutations/common_base.txt",
     BUG.replace("status.cc", "status.cc common/base/lost.h") + " :: //ps_server:shard_test\n"),
    ("planted_bugs", "tests/mutations/common_codec.txt", BUG + " :: //ps_server:shard_test\n"),
    ("change_tables", "CONTRIBUTING.md", "To add an optimizer:\n"),
    ("change_tables", "CONTRIBUTING.md", TO_ADD.format("lost", 0, 0)),
    ("change_tables", "CONTRIBUTING.md", TO_ADD.format("rms_prop", 2, 0)),
    ("change_tables", "CONTRIBUTING.md",
     TO_ADD.format("rms_prop", 1, 1) + "\n| `common/base/status.h` | what |\n"),
    ("unset", "proto/a.proto",
     "message Other {\n  // Or\n  // so. Unset or 0: 2.\n  uint32 a = 1 [\n      (setting) = {unset: 3}"
     "\n  ];\n}\n"),
]


def write(root, path, content):
    full = os.path.join(root, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w", encoding="utf-8") as file:
        file.write(content)
    if path.endswith(".sh"):
        os.chmod(full, 0o755)


class LintTest(unittest.TestCase):
    def tree(self, root, extra=None):
        for path, content in {**CLEAN, **(extra or {})}.items():
            write(root, path, content)
        return root

    def test_a_clean_tree_passes(self):
        with tempfile.TemporaryDirectory() as root:
            results = lint.run(self.tree(root), list(lint.CHECKS))
        self.assertEqual({name: [] for name in lint.CHECKS}, results)

    def test_each_check_has_a_planted_violation(self):
        self.assertEqual(set(lint.CHECKS), {check for check, _, _ in PLANTED} | {"circles"})

    def test_comprehensions_and_globs_own_files(self):
        build = ('load("//a.bzl", "rule")\n[cc_library(\n    name = n,\n    srcs = [n + ".cc"],\n'
                 ') for n in ["a", "b"]]\ncc_library(\n    name = "c",\n    srcs = glob(["c*.cc"]),\n'
                 '    hdrs = select({":x": ["d.h"]}),\n)\n')
        files = {f"common/x/{name}": "#pragma once\n" for name in ("a.cc", "b.cc", "c1.cc", "d.h")}
        with tempfile.TemporaryDirectory() as root:
            self.tree(root, {"common/x/BUILD.bazel": build, **files})
            self.assertEqual(lint.run(root, ["targets"])["targets"], [])

    def test_macros_make_rules(self):
        test = 'def plain_test(**attributes):\n    native.cc_test(**attributes)\n'
        macro = ('load("//common:test.bzl", "plain_test")\n'
                 'def unit(name, srcs):\n    plain_test(name = name + "_test", srcs = srcs)\n')
        build = 'load("//common:unit.bzl", "unit")\nunit(\n    name = "x",\n    srcs = ["x.cc"],\n)\n'
        with tempfile.TemporaryDirectory() as root:
            self.tree(root, {"common/test.bzl": test, "common/unit.bzl": macro,
                             "common/x/BUILD.bazel": build, "common/x/x.cc": "int x;\n"})
            results = lint.run(root, ["targets", "test_tags"])
        self.assertEqual(results["targets"], [])
        self.assertEqual([line.split(" has")[0] for line in results["test_tags"]],
                         ["common/x/BUILD.bazel:2: test_tags: x_test"])

    def test_a_circle_by_calls_is_named(self):
        with tempfile.TemporaryDirectory() as root:
            found = lint.run(self.tree(root, CIRCLE), ["circles"])["circles"]
            self.assertEqual(len(found), 1, found)
            self.assertIn("ring.h:5: circles: Ring has 2 files", found[0])
            write(root, "common/base/ring_come.cc", monsoon("void Ring::Come() {\n  other.Go();\n}\n"))
            self.assertEqual(lint.run(root, ["circles"])["circles"], [])

    def test_a_ceiling_is_where_the_count_is(self):
        wide = rules.MAX_METHODS + 5
        ends = {wide: [], wide - 1: ["over its ceiling"], wide + 1: ["lower its ceiling"]}
        with tempfile.TemporaryDirectory() as root:
            self.tree(root, {"common/a.h": class_of(methods=wide)})
            for ceiling, words in ends.items():
                with mock.patch.object(rules, "WIDE_CLASSES", {"Wide": {"methods": ceiling}}):
                    found = lint.run(root, ["width"])["width"]
                self.assertEqual(len(found), len(words), found)
                self.assertTrue(all(word in line for word, line in zip(words, found)), found)
            write(root, "common/a.h", class_of(methods=1))
            with mock.patch.object(rules, "WIDE_CLASSES", {"Wide": {"methods": wide}}):
                self.assertIn("take its ceiling out", lint.run(root, ["width"])["width"][0])

    def test_what_is_not_wide(self):
        texts = (class_of(rules.MAX_METHODS, rules.MAX_MEMBERS),
                 class_of(members=rules.MAX_MEMBERS + 1, kind="struct"),
                 class_of(methods=rules.MAX_METHODS).replace(
                     " public:", " public:\n  Wide() = default;\n  ~Wide();\n  using A = int;"))
        for text in texts:
            with tempfile.TemporaryDirectory() as root:
                self.tree(root, {"common/a.h": text})
                self.assertEqual(lint.run(root, ["width"])["width"], [], text)

    def test_what_is_no_stale_pointer(self):
        texts = ("// As status.h, common/base/status.h and common/status_test.h.in say.\n",
                 "// Message of c.proto, and (proto/c.proto, Message).\n",
                 "// NAME_source.h, OUT.cc and a.pb.h; foo/*.h, too; [a link](page.md).\n",
                 '// As jpeglib.h.\n#include "jpeglib.h"\n', 'const char x[] = "lost.h";\n')
        for text in texts:
            with tempfile.TemporaryDirectory() as root:
                self.tree(root, {"common/a.cc": text})
                self.assertEqual(lint.run(root, ["pointers"])["pointers"], [], text)

    def test_a_bug_that_changes_its_file_passes(self):
        with tempfile.TemporaryDirectory() as root:
            self.tree(root, {"tests/mutations/common_base.txt": BUG + " :: //ps_server:shard_test "
                             "//ps_server:all //ps_server/...\n"})
            self.assertEqual(lint.run(root, ["planted_bugs"])["planted_bugs"], [])

    def test_a_table_of_changes_has_what_is_shipped(self):
        files = {"common/a.cc": "int rms_prop;\n", "common/a.h": "// Of rms_prop.\n",
                 "common/a_test.cc": "int rms_prop;\n"}
        table = "\n| file | what |\n|---|---|\n| `common/a.cc`, `a_test.cc` | `rms_prop` |\n"
        with tempfile.TemporaryDirectory() as root:
            self.tree(root, {**files, "CONTRIBUTING.md": TO_ADD.format("rms_prop", 2, 1) + table})
            self.assertEqual(lint.run(root, ["change_tables"])["change_tables"], [])
            write(root, "CONTRIBUTING.md", TO_ADD.format("rms_prop", 0, 0))
            found = lint.run(root, ["change_tables"])["change_tables"]
        self.assertEqual(len(found), 1, found)
        self.assertIn("common/a.cc names rms_prop, and no row has it", found[0])

    def test_a_circle_is_named_arrow_by_arrow(self):
        # tests/ has no order; the circle is one of three folders.
        files = {"tests/a/x.cc": '#include "tests/b/x.h"\n',
                 "tests/b/x.h": '#pragma once\n\n#include "tests/c/x.h"\n',
                 "tests/c/x_test.cc": '#include "common/base/status.h"\n#include "tests/a/x.h"\n',
                 "tests/d/x.cc": '#include "tests/a/x.h"\n'}
        with tempfile.TemporaryDirectory() as root:
            found = lint.run(self.tree(root, files), ["folders"])["folders"]
        self.assertEqual([line.split(": ")[0] for line in found],
                         ["tests/a/x.cc:1", "tests/b/x.h:3", "tests/c/x_test.cc:2"])
        self.assertIn("tests/a -> tests/b -> tests/c -> tests/a", found[0])

    def test_a_long_circle_that_shares_an_arrow_is_not_told(self):
        arrows = {"a": {"b"}, "b": {"a", "c"}, "c": {"a"}, "d": {"a"}}
        self.assertEqual(list(include_checks.circles(arrows)), [["a", "b", "a"]])

    def test_rooms_may_include_what_is_below(self):
        files = {"coordinator/core/a.cc": '#include "coordinator/job/job_plan.h"\n',
                 "worker/backend/cuda/a.cc": '#include "worker/backend/cuda/layers/engine.h"\n'
                                             '#include "worker/nn/network.h"\n',
                 "worker/a.cc": '#include "worker/nn/network.h"\n#include "worker/worker.h"\n'}
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(lint.run(self.tree(root, files), ["folders"])["folders"], [])

    def test_what_is_no_second_definition(self):
        texts = ("class Status;\n", "namespace {\n\nclass Status {};\n\n}  // namespace\n",
                 "namespace {\nclass Status {};\n}\n",
                 "namespace cuda {\n\nstruct Status {};\n\n}  // namespace cuda\n",
                 "struct Outer {\n  struct Status {\n    int x;\n  };\n};\n",
                 "struct Status Get(int x) {\n}\n", "class Outer::Status {};\n",
                 "template <>\nclass Status<int> {};\n", "// class Status {};\n",
                 "namespace cuda {\nclass Other;\n}\n\nenum class States { kOk };\n")
        for text in texts:
            with tempfile.TemporaryDirectory() as root:
                self.tree(root, {"worker/a.h": monsoon(text)})
                self.assertEqual(lint.run(root, ["one_definition"])["one_definition"], [], text)

    def test_not_executable_is_seen(self):
        with tempfile.TemporaryDirectory() as root:
            os.chmod(os.path.join(self.tree(root), "deploy/go.sh"), 0o644)
            self.assertEqual(len(lint.run(root, ["shell"])["shell"]), 1)


def planted_test(check, path, content):
    def test(self):
        with tempfile.TemporaryDirectory() as root:
            found = lint.run(self.tree(root, {path: content}), [check])[check]
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(path + ":"), found)
    return test


for index, planted in enumerate(PLANTED):
    setattr(LintTest, f"test_planted_{index:02}_{planted[0]}", planted_test(*planted))


if __name__ == "__main__":
    outcome = unittest.main(exit=False).result
    broken = len(outcome.failures) + len(outcome.errors)
    print(f"selftest: {outcome.testsRun - broken} passed, {broken} failed")
    sys.exit(0 if outcome.wasSuccessful() else 1)
