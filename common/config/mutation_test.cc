// Thousands of damaged files: loading ends, either well or with a diagnostic.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/random.h"
#include "common/config/chaos.h"
#include "common/config/cluster.h"
#include "common/config/config_file.h"
#include "common/config/config_test_util.h"
#include "common/config/job.h"
#include "common/config/model.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

constexpr int kRounds = 1000;

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : stream_(seed, StreamKind::kTest) {}

  std::string Mutate(std::string text) {
    const uint32_t edits = 1 + Below(4);
    for (uint32_t i = 0; i < edits && !text.empty(); ++i) {
      text = Edit(text);
    }
    return text;
  }

 private:
  uint32_t Below(size_t bound) { return stream_.Below(next_++, static_cast<uint32_t>(bound)); }

  std::string Edit(std::string text) {
    static const std::vector<std::string>* const pieces =
        new std::vector<std::string>{"{",
                                     "}",
                                     "[",
                                     "]",
                                     "<",
                                     ">",
                                     ":",
                                     ",",
                                     "\"",
                                     "'",
                                     "\\",
                                     "-",
                                     "#",
                                     "nan",
                                     "1e999",
                                     "0x",
                                     "007",
                                     "\n",
                                     "\\x",
                                     "\xff",
                                     "\xe2\x82",
                                     std::string(1, '\0'),
                                     "99999999999999999999",
                                     "-0",
                                     ".5",
                                     "1e",
                                     "ps {",
                                     "layer { dense { units: 1 } }",
                                     "u\\U0010ffff",
                                     "9f"};
    const size_t at = Below(text.size());
    const size_t length = std::min<size_t>(text.size() - at, 1 + Below(20));
    switch (Below(6)) {
      case 0:
        return text.substr(0, at);
      case 1:
        text[at] = static_cast<char>(Below(256));
        return text;
      case 2:
        return text.erase(at, length);
      case 3:
        return text.insert(at, (*pieces)[Below(pieces->size())]);
      case 4:
        return text.insert(Below(text.size()), text.substr(at, length));
      default:
        return text.replace(at, length, (*pieces)[Below(pieces->size())]);
    }
  }

  PhiloxStream stream_;
  uint64_t next_ = 0;
};

template <typename Load>
void RunMutations(const std::string& name, const std::string& valid, Load load) {
  const std::string folder = testing::MakeFolder("mutation-" + name);
  testing::WriteFixtures(folder);
  const std::string path = folder + "/f.textproto";
  Mutator mutator(20120612);
  int refused = 0;
  for (int i = 0; i < kRounds; ++i) {
    const std::string text = mutator.Mutate(valid);
    testing::WriteFile(path, text);
    std::vector<Diagnostic> diagnostics;
    const absl::Status status = load(path, &diagnostics);
    ASSERT_EQ(status.ok(), diagnostics.empty()) << "round " << i << ":\n" << text;
    refused += !status.ok();
    for (const Diagnostic& diagnostic : diagnostics) {
      ASSERT_GE(diagnostic.line, 1) << FormatDiagnostic(diagnostic) << "\n" << text;
      ASSERT_GE(diagnostic.column, 1);
      ASSERT_FALSE(diagnostic.message.empty());
    }
    if (i % 4 == 0) {
      const ConfigFile file = ValidateConfigFile(path);
      ASSERT_EQ(std::holds_alternative<std::monostate>(file.contents), !file.ok()) << text;
    }
  }
  // Most edits break something; some only touch a name or a blank.
  EXPECT_GT(refused, kRounds / 2);
  EXPECT_LT(refused, kRounds);
}

TEST(Mutation, Cluster) {
  RunMutations("cluster", testing::ValidCluster(), [](const std::string& path, auto* diagnostics) {
    return LoadCluster(path, diagnostics).status();
  });
}

TEST(Mutation, Job) {
  RunMutations("job", testing::ValidJob(), [](const std::string& path, auto* diagnostics) {
    return LoadJob(path, {}, diagnostics).status();
  });
}

TEST(Mutation, SandblasterJob) {
  RunMutations("sandblaster", testing::ValidSandblasterJob(),
               [](const std::string& path, auto* diagnostics) {
                 return LoadJob(path, {}, diagnostics).status();
               });
}

TEST(Mutation, Model) {
  RunMutations("model", testing::ValidModel(), [](const std::string& path, auto* diagnostics) {
    return LoadModel(path, diagnostics).status();
  });
}

TEST(Mutation, ChaosPlan) {
  RunMutations("chaos", testing::ValidChaosPlan(), [](const std::string& path, auto* diagnostics) {
    return LoadChaosPlan(path, diagnostics).status();
  });
}

// Every prefix of a valid file.
TEST(Mutation, Truncation) {
  const std::string folder = testing::MakeFolder("truncation");
  testing::WriteFixtures(folder);
  const std::string valid = testing::ValidJob();
  for (size_t length = 0; length < valid.size(); ++length) {
    testing::WriteFile(folder + "/f", valid.substr(0, length));
    std::vector<Diagnostic> diagnostics;
    const bool loaded = LoadJob(folder + "/f", {}, &diagnostics).ok();
    ASSERT_EQ(loaded, diagnostics.empty()) << length;
  }
}

}  // namespace
}  // namespace monsoon
