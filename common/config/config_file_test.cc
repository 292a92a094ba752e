#include "common/config/config_file.h"

#include <filesystem>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/config/config_test_util.h"
#include "common/config/host_check.h"
#include "common/config/job.h"
#include "common/config/model.h"
#include "common/model/parameter_layout.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

TEST(SniffConfigKind, GoesByTheFields) {
  EXPECT_EQ(*SniffConfigKind(testing::ValidCluster()), ConfigKind::kCluster);
  EXPECT_EQ(*SniffConfigKind(testing::ValidJob()), ConfigKind::kJob);
  EXPECT_EQ(*SniffConfigKind(testing::ValidModel()), ConfigKind::kModel);
  EXPECT_EQ(*SniffConfigKind(testing::ValidChaosPlan()), ConfigKind::kChaos);
  EXPECT_EQ(*SniffConfigKind("seed: 1 falt { }"), ConfigKind::kChaos);
  EXPECT_EQ(*SniffConfigKind("seed: 1"), ConfigKind::kJob);
  EXPECT_EQ(*SniffConfigKind("workers { } cordinator { } batch_size { }"), ConfigKind::kJob);
  EXPECT_EQ(*SniffConfigKind("workers { } cordinator { } pss { }"), ConfigKind::kCluster);
  EXPECT_THAT(SniffConfigKind("name: \"a\" zebra: 1"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("neither a cluster")));
}

TEST(SniffConfigKind, GoesByThePathWhereTheFieldsDoNotTell) {
  EXPECT_EQ(*SniffConfigKind("", "/etc/my_cluster.textproto"), ConfigKind::kCluster);
  EXPECT_EQ(*SniffConfigKind("name: \"a\"", "configs/model/a.textproto"), ConfigKind::kModel);
  EXPECT_EQ(*SniffConfigKind("zebra: 1", "job/cluster.textproto"), ConfigKind::kCluster);
  EXPECT_EQ(*SniffConfigKind("zebra: 1", "x/my_job.textproto"), ConfigKind::kJob);
  EXPECT_EQ(*SniffConfigKind("seed: 1", "configs/chaos/a.textproto"), ConfigKind::kChaos);
  EXPECT_EQ(*SniffConfigKind(testing::ValidJob(), "my_cluster.textproto"), ConfigKind::kJob);
  // A folder further up says nothing.
  EXPECT_FALSE(SniffConfigKind("zebra: 1", "/cluster/stuff/a.textproto").ok());
  // Without a single field the file is judged as a job.
  EXPECT_EQ(*SniffConfigKind("", "a"), ConfigKind::kJob);
  EXPECT_EQ(*SniffConfigKind("nonsense } {{ \"", "a"), ConfigKind::kJob);
}

TEST(ValidateConfigFile, TellsKindAndErrors) {
  const std::string folder = testing::MakeFolder("sniff");
  testing::WriteFixtures(folder);
  testing::WriteFile(folder + "/cluster", testing::ValidCluster());
  testing::WriteFile(folder + "/job", testing::ValidJob());
  testing::WriteFile(folder + "/plan", testing::ValidChaosPlan());
  testing::WriteFile(folder + "/neither", "zebra: 1");
  const auto validate = [&](const std::string& name) {
    return ValidateConfigFile(absl::StrCat(folder, "/", name));
  };
  EXPECT_EQ(validate("cluster").kind, ConfigKind::kCluster);
  EXPECT_EQ(validate("job").kind, ConfigKind::kJob);
  EXPECT_EQ(validate("model.textproto").kind, ConfigKind::kModel);
  EXPECT_EQ(std::get<Cluster>(validate("cluster").contents).worker(1).threads(), 1u);
  EXPECT_EQ(std::get<Job>(validate("job").contents).model().input_shape_size(), 3);
  EXPECT_EQ(std::get<Model>(validate("model.textproto").contents).name(), "tiny");
  EXPECT_EQ(validate("plan").kind, ConfigKind::kChaos);
  EXPECT_EQ(std::get<ChaosPlan>(validate("plan").contents).back_within_s(), 60);

  const ConfigFile broken = validate("broken-model.textproto");
  EXPECT_EQ(broken.kind, ConfigKind::kModel);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(broken.contents));
  EXPECT_EQ(broken.diagnostics.size(), 1u);
  for (const char* name : {"neither", "absent"}) {
    const ConfigFile file = validate(name);
    EXPECT_FALSE(file.ok()) << name;
    EXPECT_FALSE(file.kind.has_value()) << name;
    EXPECT_EQ(file.diagnostics.size(), 1u) << name;
  }
}

// `validate --data`: what the headers do not tell.
TEST(ValidateConfigFile, ReadsTheValuesWhenAsked) {
  const std::string folder = testing::MakeFolder("values");
  testing::WriteFixtures(folder);
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (20, 1, 4, 4), }";
  header.resize(117, ' ');
  std::string samples(20 * 16 * sizeof(float), '\0');
  samples.replace((7 * 16 + 6) * sizeof(float), sizeof(float), "\0\0\xc0\x7f", sizeof(float));
  testing::WriteFile(folder + "/test.npy",
                     std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n" + samples);
  std::string label_header = "{'descr': '|u1', 'fortran_order': False, 'shape': (20,), }";
  label_header.resize(117, ' ');
  testing::WriteFile(folder + "/test-y.npy", std::string("\x93NUMPY\x01\x00\x76\x00", 10) +
                                                 label_header + "\n" + std::string(20, '\1'));
  testing::WriteFile(
      folder + "/job",
      testing::Replaced(testing::ValidJob(),
                        "idx { images: \"test-images.idx\" labels: \"test-labels.idx\" }",
                        "npy { images: \"test.npy\" labels: \"test-y.npy\" }"));
  EXPECT_TRUE(ValidateConfigFile(folder + "/job").ok());
  const ConfigFile file = ValidateConfigFile(folder + "/job", {.check_data_values = true});
  ASSERT_EQ(file.diagnostics.size(), 1u);
  EXPECT_EQ(file.diagnostics[0].field, "test.npy.images");
  EXPECT_EQ(file.diagnostics[0].message,
            folder +
                "/test.npy: sample 7 has nan at [0, 1, 2]; 1 of the values of 20 samples are "
                "not finite");
}

TEST(ValidateConfigFiles, HoldsJobsAgainstTheOnlyCluster) {
  const std::string folder = testing::MakeFolder("together");
  testing::WriteFixtures(folder);
  const std::string cluster = folder + "/cluster", job = folder + "/job";
  testing::WriteFile(cluster, testing::ValidCluster());
  testing::WriteFile(job, testing::Replaced(testing::ValidJob(), "n_fetch", "workers: 99 n_fetch"));
  EXPECT_TRUE(ValidateConfigFiles({job})[0].ok());
  const std::vector<ConfigFile> files = ValidateConfigFiles({job, cluster});
  ASSERT_EQ(files.size(), 2u);
  ASSERT_EQ(files[0].diagnostics.size(), 1u);
  EXPECT_EQ(files[0].diagnostics[0].file, job);
  EXPECT_THAT(files[0].diagnostics[0].message, HasSubstr("wants 99 workers"));
  EXPECT_TRUE(files[1].ok());
  // With two clusters nobody knows which is meant.
  for (const ConfigFile& file : ValidateConfigFiles({job, cluster, cluster})) {
    EXPECT_TRUE(file.ok()) << file.path;
  }
}

TEST(ValidateConfigFile, ReadsTheStandardInputForADash) {
  const std::string folder = testing::MakeFolder("input");
  ValidateOptions options;
  options.standard_input = testing::Replaced(testing::ValidCluster(), "ps {", "pss {");
  ConfigFile file = ValidateConfigFile("-", options);
  EXPECT_EQ(file.kind, ConfigKind::kCluster);
  ASSERT_FALSE(file.diagnostics.empty());
  EXPECT_THAT(FormatDiagnostic(file.diagnostics[0]), HasSubstr("<stdin>:3:1: error: pss"));
  options.standard_input = testing::ValidModel();
  file = ValidateConfigFile("-", options);
  EXPECT_TRUE(file.ok());
  EXPECT_EQ(file.kind, ConfigKind::kModel);
}

TEST(ValidateConfigFile, LooksEachHostUpOnce) {
  ValidateOptions options;
  std::vector<std::string> asked;
  using Found = absl::StatusOr<std::vector<std::string>>;
  options.host_check = [&asked](const std::string& host) {
    asked.push_back(host);
    return host == "nowhere.example"
               ? Found(absl::NotFoundError("host \"" + host + "\" is not known"))
               : Found(std::vector<std::string>{"10.0.0.1"});
  };
  options.standard_input = R"(coordinator { address: "localhost:1" }
ps { address: "here.example:2" }
ps { address: "nowhere.example:2" }
ps { address: "nowhere.example:3" }
worker { address: "unix:/tmp/w" }
worker { address: "127.0.0.1:2" }
)";
  const ConfigFile file = ValidateConfigFile("-", options);
  EXPECT_EQ(asked, (std::vector<std::string>{"here.example", "nowhere.example"}));
  ASSERT_EQ(file.diagnostics.size(), 1u);
  EXPECT_EQ(FormatDiagnostic(file.diagnostics[0]),
            "<stdin>:3:15: error: ps[1].address: host \"nowhere.example\" is not known; mend the "
            "name, or write the host's IP address");
}

// What a cluster file of several machines gets wrong most, as validate tells it.
TEST(ValidateConfigFile, TellsAddressesThatOthersCannotReach) {
  const auto lines = [](const std::string& text) {
    ValidateOptions options;
    options.standard_input = text;
    options.host_check = [](const std::string& host) -> absl::StatusOr<std::vector<std::string>> {
      return std::vector<std::string>{host == "debian" ? "127.0.1.1" : "10.0.0.5"};
    };
    const ConfigFile file = ValidateConfigFile("-", options);
    std::vector<std::string> lines;
    for (const Diagnostic& error : file.diagnostics) {
      lines.push_back(FormatDiagnostic(error));
    }
    for (const Diagnostic& warning : file.warnings) {
      lines.push_back(FormatDiagnostic(warning, "warning"));
    }
    return lines;
  };
  using ::testing::AllOf;
  using ::testing::ElementsAre;
  EXPECT_THAT(lines(R"(coordinator { address: "debian:1" } ps { address: "debian:2" })"),
              ElementsAre(HasSubstr("coordinator.address: \"debian:1\" is 127.0.1.1 on this "
                                    "machine, which it alone can connect to")));
  EXPECT_THAT(lines(R"(coordinator { address: "alpha:1" } ps { address: "0.0.0.0:2" })"),
              ElementsAre(AllOf(HasSubstr("ps[0].address: \"0.0.0.0:2\" is no address to connect"),
                                HasSubstr("--address=0.0.0.0:2"))));
  EXPECT_THAT(lines(R"(coordinator { address: "localhost:1" } ps { address: "unix:/p" }
                       worker { address: "alpha:3" })"),
              ElementsAre(HasSubstr("coordinator.address: \"localhost:1\" is each machine's own, "
                                    "as are 1 more, while worker[0] is at \"alpha:3\"")));
  EXPECT_THAT(lines(R"(coordinator { address: "alpha:1" } ps { address: "alpha.lan:1" })"),
              ElementsAre(HasSubstr("error: ps[0].address: \"alpha.lan:1\" and the address of "
                                    "coordinator (\"alpha:1\") are both 10.0.0.5 port 1")));
  EXPECT_THAT(lines(R"(coordinator { address: "alpha:1" } ps { address: "alpha.lan:2" })"),
              ElementsAre());
  EXPECT_THAT(lines(R"(coordinator { address: "alpha:1" } ps { address: "alpha:2" }
                       state_dir: "~/state")"),
              ElementsAre(HasSubstr("error: state_dir: \"~/state\" would be a folder called ~")));
}

TEST(LookUpHost, KnowsAddressesAndNamesTheUnknown) {
  EXPECT_OK(LookUpHost("127.0.0.1", absl::Seconds(5)).status());
  EXPECT_OK(LookUpHost("::1", absl::Seconds(5)).status());
  // A label may have 63 characters, so nobody has to be asked.
  const std::string host(70, 'x');
  const absl::Status status = LookUpHost(host, absl::Seconds(5)).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(host));
}

// The test set of the valid jobs is scaled and their training set is not, which gives a warning of
// its own.
std::string ScaledAlike(const std::string& job) {
  return testing::Replaced(job, " scale: 2 }", " }");
}

TEST(ValidateConfigFile, WarnsOfATestSetThatIsScaledOtherwise) {
  const std::string folder = testing::MakeFolder("scaled");
  testing::WriteFixtures(folder);
  testing::WriteFile(folder + "/job", testing::ValidJob());
  const ConfigFile file = ValidateConfigFile(folder + "/job");
  EXPECT_TRUE(file.ok());
  ASSERT_EQ(file.warnings.size(), 1u);
  EXPECT_EQ(file.warnings[0].field, "test");
}

TEST(ValidateConfigFile, WarnsOfWhatTrainsBadly) {
  const std::string folder = testing::MakeFolder("advice");
  testing::WriteFixtures(folder);
  const auto warnings = [&](const std::string& find, const std::string& with) {
    testing::WriteFile(folder + "/job",
                       testing::Replaced(ScaledAlike(testing::ValidJob()), find, with));
    const ConfigFile file = ValidateConfigFile(folder + "/job");
    EXPECT_TRUE(file.ok());
    std::string lines;
    for (const Diagnostic& warning : file.warnings) {
      lines += FormatDiagnostic(warning, "warning").substr(folder.size()) + "\n";
    }
    return lines;
  };
  EXPECT_EQ(warnings("n_fetch: 2", "n_fetch: 2"), "");
  EXPECT_THAT(warnings("n_fetch: 2", "n_push: 4"),
              HasSubstr("/job:8:11: warning: downpour.n_push: a push is the sum of 4 gradients of "
                        "one point, and with momentum it moves by up to rate * n_push / (1 - "
                        "momentum) = 4 times their mean"));
  EXPECT_THAT(
      warnings("n_fetch: 2", "n_push: 4"),
      HasSubstr("; divide the rate by n_push (rate: 0.025), or add local_update { sgd_rate: "
                "0.1 }\n"));
  EXPECT_EQ(warnings("n_fetch: 2", "n_push: 4 local_update { sgd_rate: 0.1 }"), "");
  EXPECT_EQ(warnings("n_fetch: 2\n  overlap: NONE\n  optimizer {\n    momentum { rate: 0.1",
                     "n_push: 4 optimizer { momentum { rate: 0.01"),
            "");
  constexpr char kMomentum[] = "momentum { rate: 0.1 momentum: 0.9 }";
  EXPECT_THAT(warnings(kMomentum, "nesterov { rate: 0.7 momentum: 0.9 }"),
              HasSubstr("downpour.optimizer.nesterov.momentum: pushes of several replicas are "
                        "applied one by one, and a momentum of 0.9 carries each on by up to 10 "
                        "times itself"));
  EXPECT_EQ(warnings(kMomentum, "nesterov { rate: 0.7 momentum: 0.9 period: 2 }"), "");
  EXPECT_EQ(warnings(kMomentum, "nesterov { rate: 0.7 momentum: 0.5 }"), "");
  const auto of_two = [&](const std::string& optimizer) {
    return warnings(
        "n_fetch: 2\n  overlap: NONE\n  optimizer {\n    momentum { rate: 0.1 momentum: 0.9 }",
        "workers: 2 optimizer { " + optimizer);
  };
  EXPECT_THAT(of_two("adagrad { rate: 0.3 } average { }"),
              HasSubstr("downpour.optimizer.adagrad.rate: 2 workers make 2 stale steps of 0.3 for "
                        "one: an averaged Adagrad ended at chance so with 8 workers and a rate of "
                        "0.1; take 0.25 or less"));
  EXPECT_EQ(of_two("adagrad { rate: 0.25 } average { }"), "");
  EXPECT_EQ(of_two("adagrad { rate: 0.3 }"), "");
  // In rounds no difference carries another on.
  const auto in_rounds = [&](const std::string& nesterov) {
    return warnings(
        "n_fetch: 2\n  overlap: NONE\n  optimizer {\n    momentum { rate: 0.1 momentum: 0.9 }",
        "local { steps: 5 inner { sgd { rate: 0.1 } } } rounds { } optimizer { " + nesterov);
  };
  EXPECT_EQ(in_rounds("nesterov { rate: 0.7 momentum: 0.9 }"), "");
  EXPECT_EQ(in_rounds("nesterov { rate: 0.7 momentum: 0.9 period: 1 }"), "");
  EXPECT_THAT(in_rounds("nesterov { rate: 0.7 momentum: 0.9 period: 3 }"),
              HasSubstr("downpour.optimizer.nesterov.period: a round gives the optimizer one mean "
                        "of all its differences, so that a period of 3 delays the momentum by 3 "
                        "rounds; leave period out"));
}

TEST(ConfigFileTest, ASchedulesLengthIsANumberOrAShareOfStop) {
  const std::string folder = testing::MakeFolder("shares");
  const auto errors = [&](const std::string& stop, const std::string& schedule) {
    testing::WriteFile(folder + "/job", absl::StrCat(R"(
        name: "j" batch_size: 10 model { input_shape: 4 layer { dense { units: 2 } } }
        train { synthetic { examples: 1000 classes: 2 } } stop { )",
                                                     stop,
                                                     " } downpour { optimizer { sgd { rate: 0.1 } "
                                                     "schedule { ",
                                                     schedule, " } } }\n"));
    const ConfigFile file = ValidateConfigFile(folder + "/job");
    std::string text;
    for (const Diagnostic& error : file.diagnostics) {
      absl::StrAppend(&text, error.field, ": ", error.message, "\n");
    }
    return text;
  };
  EXPECT_EQ(errors("epochs: 3", "cosine { share: 0.5 } warm_up_share: 0.1"), "");
  EXPECT_EQ(errors("steps: 30", "step { every_share: 0.5 factor: 0.5 }"), "");
  EXPECT_THAT(errors("epochs: 3", "cosine { share: 0.5 pushes: 9 }"),
              HasSubstr("downpour.optimizer.schedule.cosine.share: stands in place of"));
  EXPECT_THAT(errors("epochs: 3", "warm_up_pushes: 3 warm_up_share: 0.1"),
              HasSubstr("warm_up_share: stands in place of"));
  EXPECT_THAT(errors("epochs: 3", "cosine { }"), HasSubstr("cosine.pushes: must be at least 1"));
  EXPECT_THAT(errors("epochs: 3", "cosine { share: 2 }"), HasSubstr("cosine.share"));
  EXPECT_THAT(errors("seconds: 3", "cosine { share: 1 }"),
              HasSubstr("a share is of all pushes until `stop`, which nobody knows here"));
}

TEST(ConfigFileTest, WarnsOfSchedulesThatEndEarlyOrLate) {
  const std::string folder = testing::MakeFolder("schedules");
  const auto warnings = [&](const std::string& downpour) {
    testing::WriteFile(folder + "/job", absl::StrCat(R"(
        name: "j" batch_size: 10 stop { epochs: 3 }
        model { input_shape: 4 layer { dense { units: 2 } } }
        train { synthetic { examples: 1000 classes: 2 } }
        downpour { )",
                                                     downpour, " }\n"));
    const ConfigFile file = ValidateConfigFile(folder + "/job");
    EXPECT_TRUE(file.ok());
    std::string text;
    for (const Diagnostic& warning : file.warnings) {
      absl::StrAppend(&text, warning.field, ": ", warning.message, "\n");
    }
    return text;
  };
  const auto of_pushes = [&](const std::string& schedule) {
    return warnings("optimizer { sgd { rate: 0.1 } schedule { " + schedule + " } }");
  };
  EXPECT_EQ(of_pushes("cosine { pushes: 300 }"), "");
  EXPECT_EQ(of_pushes("cosine { share: 1 } warm_up_share: 0.1"), "");
  EXPECT_THAT(of_pushes("cosine { pushes: 10 }"),
              HasSubstr("downpour.optimizer.schedule.cosine.pushes: the cosine has fallen to 0 "
                        "after 10 of about 300 pushes"));
  EXPECT_THAT(of_pushes("cosine { pushes: 1000000 }"),
              HasSubstr("the cosine ends after 1000000 pushes, the job after about 300"));
  EXPECT_THAT(of_pushes("step { every_pushes: 400 factor: 0.5 }"), HasSubstr("before the first"));
  EXPECT_THAT(of_pushes("warm_up_pushes: 400"), HasSubstr("within the warm-up of 400"));
  constexpr char kInner[] =
      "local { steps: 5 inner { sgd { rate: 0.1 } schedule { cosine { pushes: 300 } } } }";
  EXPECT_EQ(warnings(absl::StrCat("workers: 1 ", kInner)), "");
  EXPECT_THAT(warnings(absl::StrCat("workers: 3 ", kInner)),
              HasSubstr("downpour.local.inner.schedule.cosine.pushes: the cosine ends after 300 "
                        "steps of a worker, the job after about 100"));
}

TEST(ConfigFileTest, WarnsOfABatchNormThatGetsOneSample) {
  const std::string folder = testing::MakeFolder("last_batch");
  const auto warnings = [&](int examples, int batch, const std::string& model) {
    testing::WriteFile(
        folder + "/job",
        absl::StrCat("name: \"j\" batch_size: ", batch, " stop { epochs: 3 } model { ", model,
                     " layer { dense { units: 2 } } } train { synthetic { examples: ", examples,
                     " classes: 2 } } downpour { optimizer { sgd { rate: 0.1 } } }"));
    const ConfigFile file = ValidateConfigFile(folder + "/job");
    EXPECT_TRUE(file.ok());
    return file.warnings;
  };
  constexpr char kVectors[] =
      "input_shape: 4 layer { dense { units: 3 } } layer { batch_norm { } }";
  EXPECT_TRUE(warnings(64, 32, kVectors).empty());
  EXPECT_TRUE(warnings(66, 32, kVectors).empty());
  const auto found = warnings(65, 32, kVectors);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].field, "batch_size");
  EXPECT_THAT(found[0].message, HasSubstr("the last batch of an epoch is one sample"));
  ASSERT_EQ(warnings(64, 1, kVectors).size(), 1u);
  // Of an image each channel has many values.
  EXPECT_TRUE(warnings(65, 32,
                       "input_shape: [ 1, 4, 4 ] layer { batch_norm { } } "
                       "layer { flatten { } }")
                  .empty());
  EXPECT_TRUE(warnings(65, 32, "input_shape: 4").empty());
}

TEST(ConfigFileTest, WarnsOfStatisticsThatNobodyFinds) {
  const std::string folder = testing::MakeFolder("statistics");
  testing::WriteFixtures(folder);
  const auto warnings = [&](const std::string& job, const std::string& more) {
    testing::WriteFile(folder + "/batch-model.textproto",
                       testing::Replaced(testing::ValidModel(), "dropout { rate: 0.5 }", more));
    testing::WriteFile(folder + "/job", job);
    const ConfigFile file = ValidateConfigFile(folder + "/job");
    EXPECT_TRUE(file.ok());
    return file.warnings;
  };
  EXPECT_TRUE(warnings(ScaledAlike(testing::ValidSandblasterJob()), "layer_norm {}").empty());
  const auto found = warnings(ScaledAlike(testing::ValidSandblasterJob()), "batch_norm {}");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].field, "sandblaster");
  EXPECT_THAT(found[0].message, HasSubstr("batch_norm's running means and variances stay"));
  const std::string chain = ScaledAlike(testing::ValidSandblasterJob()) +
                            "downpour { optimizer { sgd { rate: 0.1 } } } stop { epochs: 1 }\n";
  EXPECT_TRUE(warnings(chain, "batch_norm {}").empty());
  const auto in_format = [&](const std::string& format, const std::string& more) {
    return warnings(
        testing::Replaced(chain, "downpour {", absl::StrCat("downpour { push_format: ", format)),
        more);
  };
  EXPECT_TRUE(in_format("BFLOAT16", "batch_norm {}").empty());
  EXPECT_TRUE(in_format("INT8", "layer_norm {}").empty());
  const auto lossy = in_format("INT8", "batch_norm {}");
  ASSERT_EQ(lossy.size(), 1u);
  EXPECT_EQ(lossy[0].field, "downpour.push_format");
  EXPECT_THAT(lossy[0].message, HasSubstr("INT8 brings changes of batch_norm's running means"));
}

}  // namespace
}  // namespace monsoon
