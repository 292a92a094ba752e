// The files of configs/: each is right, and is what it says. Bazel runs tests in the folder where
// the data lies under its own path.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/config/config_file.h"
#include "common/config/job.h"
#include "common/config/model.h"
#include "common/model/parameter_layout.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;

constexpr char kModels[] = "configs/model/";
constexpr char kJobs[] = "configs/job/";

// Models that no job trains: too large for the machines there are.
constexpr char kPlanOnly[] = "local_contrast_full";

// Models whose data the user has, or installs, or has made by a script.
const std::set<std::string>& OfUsersData() {
  static const auto* const names = new std::set<std::string>(
      {"cifar10", "gpt", "image_cnn", "nowcast", "resnet", "speech", "text_classifier"});
  return *names;
}

bool SaysThatDataAreNotHere(const Diagnostic& diagnostic) {
  return (absl::StartsWith(diagnostic.field, "train.") ||
          absl::StartsWith(diagnostic.field, "test.")) &&
         (absl::StrContains(diagnostic.message, "No such file or directory") ||
          absl::StrContains(diagnostic.message, "no file is named like"));
}

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// What the comments say, in one line.
std::string CommentsOf(const std::string& text) {
  std::string comments;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, "#")) {
      absl::StrAppend(&comments, line.substr(1));
    }
  }
  return comments;
}

std::string WithCommas(uint64_t number) {
  return number < 1000 ? absl::StrCat(number)
                       : absl::StrCat(WithCommas(number / 1000), ",",
                                      absl::Dec(number % 1000, absl::kZeroPad3));
}

std::set<std::string> NamesIn(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".textproto") {
      names.insert(entry.path().stem());
    }
  }
  return names;
}

// "resnet" of configs/job/resnet_downpour.textproto.
std::string ModelOf(const std::string& job) {
  Job parsed = *LoadJob(absl::StrCat(kJobs, job, ".textproto"), {.check_data_files = false});
  return parsed.model().name();
}

TEST(Presets, AreAllValid) {
  std::map<std::string, ConfigKind> kinds = {{"chaos", ConfigKind::kChaos},
                                             {"cluster", ConfigKind::kCluster},
                                             {"job", ConfigKind::kJob},
                                             {"model", ConfigKind::kModel}};
  std::map<std::string, int> seen;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("configs")) {
    if (entry.path().extension() != ".textproto") {
      continue;
    }
    const std::string folder = entry.path().parent_path().filename();
    const ConfigFile file = ValidateConfigFile(entry.path());
    EXPECT_EQ(file.kind, kinds.at(folder)) << entry.path();
    EXPECT_TRUE(file.warnings.empty()) << entry.path();
    ++seen[folder];
    const bool has_data = folder != "job" ||
                          !OfUsersData().contains(ModelOf(entry.path().stem())) ||
                          absl::EndsWith(std::string(entry.path().stem()), "_synthetic");
    for (const Diagnostic& diagnostic : file.diagnostics) {
      EXPECT_TRUE(!has_data && SaysThatDataAreNotHere(diagnostic)) << FormatDiagnostic(diagnostic);
    }
  }
  EXPECT_GE(seen["chaos"], 1);
  EXPECT_GE(seen["cluster"], 2);
  EXPECT_GE(seen["job"], 36);
  EXPECT_GE(seen["model"], 14);
}

// Hand-computed; layer by layer in the file's comment or in docs/models.md.
const std::map<std::string, uint64_t>& Parameters() {
  static const auto* const parameters = new std::map<std::string, uint64_t>({
      {"softmax", 7850},
      {"mlp", 101770},
      {"lenet", 129068},
      // 440 x 2560, 3 of 2560 x 2560, 2560 x 8192, each with biases.
      {"speech", 1128960 + 3 * 6556160 + 20979712},
      {"cifar10", 896 + 18496 + 36928 + 65600 + 650},
      {"image_cnn", 896 + 18496 + 73856 + 9470208 + 1285},
      // The LSTM: twice 256 x (128 + 64 + 1).
      {"text_classifier", 1280000 + 2 * 256 * 193 + 64 * 129 + 65},
      // Each place's own filters and biases.
      {"local_contrast", 24 * 24 * 8 * 26 + 10 * 10 * 8 * 73 + 4 * 4 * 8 * 33 + 330},
      {"local_contrast_full",
       uint64_t{36} * (91 * 91 * 301 + 78 * 78 * 3601 + 65 * 65 * 3601) + uint64_t{21000} * 12997},
      {"nowcast", 5632 + 18496 + 73856 + 295168 + 590080 + 400 * 16385 + 24576 * 401},
      {"dsn", 256 * (785 + 795 + 805) + 3 * 2570},
      // Four tensors a norm.
      {"resnet", 432 + 2 * 2304 + (4608 + 9216 + 512) + (18432 + 36864 + 2048) +
                     4 * (3 * 16 + 3 * 32 + 3 * 64) + 650},
      // Embedding, positions; a block: two norms, 4 x 128 x 128, 2 x 128 x 512; the last norm.
      {"gpt", 32768 + 8192 + 4 * (2 * 256 + 65536 + 131072) + 256},
      {"batchnorm_cnn", 288 + 18432 + 401408 + 4 * (32 + 64 + 128) + 1290},
  });
  return *parameters;
}

TEST(Presets, HaveTheParametersTheySay) {
  std::set<std::string> counted;
  for (const auto& [name, parameters] : Parameters()) {
    const std::string path = absl::StrCat(kModels, name, ".textproto");
    ASSERT_OK_AND_ASSIGN(const Model model, LoadModel(path));
    EXPECT_EQ(model.name(), name);
    ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, ParameterLayout::Create(model));
    EXPECT_EQ(layout.parameters(), parameters) << name;
    EXPECT_THAT(CommentsOf(Contents(path)), HasSubstr(WithCommas(parameters)));
    counted.insert(name);
  }
  EXPECT_EQ(counted, NamesIn(kModels));
}

// What was asked for, and by whom.
TEST(Presets, HaveTheParametersOfTheLiterature) {
  EXPECT_EQ(Parameters().at("speech"), 41777152u);
  EXPECT_EQ(Parameters().at("cifar10"), 122570u);
  EXPECT_EQ(Parameters().at("gpt"), 829696u);  // python/examples/gpt_bytes.py
  EXPECT_NEAR(static_cast<double>(Parameters().at("nowcast")), 17395992, 173959);
  EXPECT_NEAR(static_cast<double>(Parameters().at("local_contrast_full")), 1.7e9, 1.7e7);
}

TEST(Presets, TrainEachModelByBothProcedures) {
  std::map<std::string, std::set<std::string>> procedures;
  for (const std::string& job : NamesIn(kJobs)) {
    ASSERT_OK_AND_ASSIGN(const Job parsed, LoadJob(absl::StrCat(kJobs, job, ".textproto"),
                                                   {.check_data_files = false}));
    procedures[parsed.model().name()].insert(parsed.has_sandblaster() ? "sandblaster" : "downpour");
    // Sandblaster's F is one function of w.
    for (const Layer& layer : parsed.model().layer()) {
      EXPECT_FALSE(parsed.has_sandblaster() && (layer.has_dropout() || layer.has_augment())) << job;
    }
  }
  for (const std::string& model : NamesIn(kModels)) {
    const size_t count = procedures[model].size();
    EXPECT_EQ(count, model == kPlanOnly ? 0u : model == "softmax" ? 1u : 2u) << model;
  }
}

TEST(Presets, OfDownpourAreWhatTheySay) {
  for (const auto& [name, rate] : std::map<std::string, double>{{"mlp", 0.03}, {"lenet", 0.1}}) {
    ASSERT_OK_AND_ASSIGN(const Job job, LoadJob("configs/job/" + name + "_downpour.textproto"));
    EXPECT_EQ(job.name(), name);
    EXPECT_EQ(job.model().name(), name);
    EXPECT_EQ(job.batch_size(), 64u);
    EXPECT_EQ(job.stop().epochs(), 10.0);
    EXPECT_EQ(job.downpour().optimizer().adagrad().rate(), rate) << name;
  }
}

TEST(Presets, OfSandblasterAreWhatTheySay) {
  ASSERT_OK_AND_ASSIGN(Job job, LoadJob("configs/job/sandblaster_softmax.textproto"));
  EXPECT_EQ(job.model().name(), "softmax");
  EXPECT_EQ(job.sandblaster().l2(), 1e-2);
  EXPECT_EQ(job.sandblaster().max_iterations(), 200u);
  EXPECT_EQ(job.sandblaster().chunk_examples(), 200u);
  ASSERT_OK_AND_ASSIGN(job, LoadJob("configs/job/sandblaster_lenet.textproto"));
  EXPECT_EQ(job.model().name(), "lenet");
  EXPECT_EQ(job.sandblaster().history(), 10u);
  EXPECT_EQ(job.sandblaster().evaluate_every_iterations(), 10u);
  ASSERT_OK_AND_ASSIGN(job, LoadJob("configs/job/sandblaster_mlp.textproto"));
  EXPECT_EQ(job.model().name(), "mlp");
  EXPECT_EQ(job.sandblaster().max_iterations(), 150u);
  ASSERT_OK_AND_ASSIGN(job, LoadJob("configs/job/lenet_chain.textproto"));
  EXPECT_EQ(job.downpour().warmstart().steps(), 100u);
  EXPECT_EQ(job.stop().epochs(), 2.0);
  EXPECT_EQ(job.sandblaster().max_iterations(), 10u);
}

}  // namespace
}  // namespace monsoon
