#!/usr/bin/python3
"""Holds house.py and what reads C++ for it against small sources whose figures are known."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

import class_shape
import cplusplus
import house
import house_changes
import house_reach
from source_tree import Tree

HEADER = '''#pragma once

namespace monsoon {

// A class Other { int x; } in a comment, and "class Third {" in a string.
struct Options {
  int steps = 4;
  std::map<std::string, std::function<void(int)>> on_change;
  bool Valid() const { return steps > 0; }
};

template <typename T = int>
class ABSL_LOCKABLE Wide : public Base<T>, private Other {
 public:
  Wide() = default;
  explicit Wide(Options options) : options_{options}, count_(0) { Start(); }
  Wide(const Wide&) = delete;
  virtual ~Wide();

  using Function = std::function<int(int)>;
  enum class Kind { kOne, kTwo };
  static constexpr int kMost = 3;

  void Start();
  int Get(std::map<int, int> all = {}) const ABSL_LOCKS_EXCLUDED(mutex_) { return all.size(); }
  int Get(int) const;
  static Wide Make(char brace = '{');
  bool operator==(const Wide& other) const = default;
  bool operator<(const Wide& other) const { return count_ < other.count_; }
  virtual void Stop() = 0;
  friend void Swap(Wide& a, Wide& b);

 private:
  struct Part {
    int index;
  };
  void Turn(int x) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Options options_{};
  std::vector<Part> parts_ ABSL_GUARDED_BY(mutex_);
  int (*call_)(int) = nullptr;
  int array_[4] = {1, 2, 3, 4};
  absl::Mutex mutex_;
  Function function_ = [](int x) { return x; };
  int64_t count_ : 5;
};

}  // namespace monsoon
'''

WIDE_CC = '''#include "a.h"
namespace monsoon {
namespace {

const char* kText = R"(class Raw { void F(); };)";
const std::vector<int> kNumbers = {1, 2};

int Free(int x) {
  return x;
}

class Local {
 public:
  void Run() { Free(1); }
};

}  // namespace

void Wide::Start() {
  if (Free(1) > 0) {
    Turn(2);
  }
}

absl::StatusOr<std::pair<int, int>> Wide::Make(
    char brace) {
  return {1, 2};
}

}  // namespace monsoon
'''

TURN_CC = '''namespace monsoon {

void Wide::Turn(int x) {
  other->Start();
  Start();
}

int Wide::Get(int) const { return 1; }

}  // namespace monsoon
'''

BUILD = '''cc_library(
    name = "wide",
    srcs = [
        "turn.cc",
        "wide.cc",
    ],
    hdrs = ["wide.h"],
)

cc_library(
    name = "fakes",
    testonly = True,
    hdrs = ["fakes.h"],
    deps = [":wide"],
)

cc_test(
    name = "wide_test",
    srcs = ["wide_test.cc"],
    tags = ["unit"],
    deps = [
        ":fakes",
        ":wide",
    ],
)
'''

FILES = {
    "common/wide/wide.h": HEADER,
    "common/wide/wide.cc": WIDE_CC,
    "common/wide/turn.cc": TURN_CC,
    "common/wide/fakes.h": "#pragma once\n",
    "common/wide/wide_test.cc": "TEST(Wide, Turns) {\n}\n",
    "common/wide/BUILD.bazel": BUILD,
    "docs/a.md": "A page.\n",
}


def write(root, files):
    for path, content in files.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(content)


class HouseTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        write(self.root, FILES)

    def measured(self):
        return house.measure(Tree(self.root))

    def test_classes_of_a_header(self):
        wide = {found.name: found for found in cplusplus.Source("a.h", HEADER).classes}
        self.assertEqual(list(wide), ["monsoon::Options", "monsoon::Wide", "monsoon::Wide::Part"])
        self.assertEqual(wide["monsoon::Options"].members, ["steps", "on_change"])
        self.assertEqual(wide["monsoon::Options"].methods, ["Valid"])
        self.assertEqual(wide["monsoon::Wide"].methods,
                         ["Start", "Get", "Get", "Make", "operator", "Stop", "Turn"])
        self.assertEqual(wide["monsoon::Wide"].members,
                         ["options_", "parts_", "call_", "array_", "mutex_", "function_", "count_"])

    def test_functions_of_a_source(self):
        found = [(function.owner, function.name, function.first, function.lines)
                 for function in cplusplus.Source("a.cc", WIDE_CC).functions]
        self.assertEqual(found, [("", "Free", 8, 3), ("monsoon::Local", "Run", 14, 1),
                                 ("monsoon::Wide", "Start", 19, 5),
                                 ("monsoon::Wide", "Make", 25, 4)])

    def test_calls_are_those_on_oneself(self):
        self.assertEqual(cplusplus.calls("{ A(); this->B(); c->D(); e.F(); G::H(); x = I(J()); }"),
                         {"A", "B", "I", "J"})

    def test_a_planted_circle_is_found(self):
        self.assertEqual(self.measured()["circles by calls"], {"Wide": {"files": 2}})
        write(self.root, {"common/wide/turn.cc": TURN_CC.replace("  Start();\n", "")})
        self.assertEqual(self.measured()["circles by calls"], {})

    def test_a_circle_of_three_has_no_fourth(self):
        arrows = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
        parts = sorted(sorted(part) for part in class_shape.strongly_connected(arrows))
        self.assertEqual(parts, [["a", "b", "c"], ["d"]])

    def test_a_planted_wide_class_is_the_widest(self):
        methods = "".join(f"  void F{i}();\n" for i in range(60))
        write(self.root, {"worker/w.h": f"class Widest {{\n public:\n{methods}  int x_;\n}};\n"})
        name, figures = list(self.measured()["classes"].items())[-1]
        self.assertEqual((name, figures), ("Widest", {"methods": 60, "members": 1,
                                                      "lines of functions": 0, "files": 0}))

    def test_lines_and_build(self):
        measured = self.measured()
        production = sum(FILES["common/wide/" + name].count("\n")
                         for name in ("wide.h", "wide.cc", "turn.cc"))
        self.assertEqual(measured["lines"]["common"],
                         {"production": production, "tests": 3, "files": 5})
        self.assertEqual(measured["lines"]["md"], {"production": 1, "tests": 0, "files": 1})
        self.assertEqual(measured["BUILD"]["all"],
                         {"lines": BUILD.count("\n"), "libraries": 2, "with one user": 1,
                          "tests": 1})

    def test_places_and_lists(self):
        change = house_changes.Change("kind", "sample", "Rms", "Adam|Sgd", r"/rms\.h$")
        write(self.root, {
            "common/wide/wide.h": "Rms x;\n\n\n\n\nAdam y;\n",   # too far apart for a list
            "common/wide/wide.cc": "case Sgd:\ncase Rms:\n" + "\n" * 9 + "Adam, Rms\n",
            "common/wide/wide_test.cc": "Rms\nSgd\n",
            "common/wide/rms.h": "Rms\nAdam\n",
            "tests/mutations/a.txt": "Rms Adam\n"})
        tree = Tree(self.root)
        self.assertEqual(
            house_changes.places(tree, change, {"common/wide/wide.h", "common/wide/wide.cc"}),
            {"files": 4, "production": 2, "lists": 2, "all_lists": 3})

    def test_who_sees_a_proto(self):
        library = 'monsoon_proto_library(\n    name = "{}",\n    srcs = ["{}.proto"],\n{})\n'
        build = library.format("job", "job", "") + library.format("carrier", "carrier", "{}")
        write(self.root, {
            "proto/job.proto": "message Job {}\n", "proto/BUILD.bazel": build.format(""),
            "proto/carrier.proto": 'import "proto/job.proto";\n',
            "common/a.h": '#include "proto/carrier.pb.h"\n', "common/b.cc": '#include "common/a.h"\n',
            "common/c.cc": '#include "proto/job.pb.h"\n'})
        reach = house_reach.reach(Tree(self.root))
        self.assertEqual(reach, {"proto/job.proto": {"sources": 4}})  # job, carrier, b, c
        write(self.root, {"proto/BUILD.bazel": build.format('    forward = {"job.proto": "Job"},\n')})
        reach = house_reach.reach(Tree(self.root))
        self.assertEqual(reach, {"proto/job.proto": {"sources": 2}})

    def test_its_own_table_names_what_is_there(self):
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        tree = Tree(root)
        for change in house_changes.CHANGES:
            counts = house_changes.places(tree, change, set())
            self.assertGreater(counts["files"], 0, change)

    def test_tables_with_a_base(self):
        rows = {"a": {"x": 1, "y": 2}}
        self.assertEqual(house.table("t", rows, None, 5), ["t  x  y", "-------", "a  1  2"])
        self.assertEqual(house.table("t", rows, {"a": {"x": 3}, "b": {"x": 4}}, 5)[2:],
                         ["a  3 -> 1  2", "b  4 -> -  -"])

    def test_a_revision_is_measured(self):
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", self.root]
        for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Begin"]):
            subprocess.run(git + command, check=True)
        write(self.root, {"common/wide/wide.h": "#pragma once\n"})
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            house.main([f"--root={self.root}", "--base=HEAD", "--json"])
        both = json.loads(out.getvalue())
        self.assertEqual(both["base"]["classes"]["Wide"]["methods"], 7)
        self.assertNotIn("Wide", both["now"]["classes"])


if __name__ == "__main__":
    outcome = unittest.main(exit=False).result
    broken = len(outcome.failures) + len(outcome.errors)
    print(f"selftest: {outcome.testsRun - broken} passed, {broken} failed")
    sys.exit(0 if outcome.wasSuccessful() else 1)
