#include "common/checkpoint/stored_job.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kJob[] = R"pb(
  name: "tiny"
  model {
    name: "t"
    input_shape: 3
    layer {
      name: "a"
      dense {
        units: 2
        weight_initializer { normal: 0.25 }
      }
    }
    layer {
      name: "b"
      relu {}
    }
  }
  train { synthetic { examples: 64 classes: 2 } }
  test { synthetic { examples: 64 classes: 2 seed: 1 } }
  seed: 18446744073709551615
  batch_size: 8
  standardise: true
  compute_precision: TF32
  downpour {
    n_fetch: 3
    push_format: INT8
    optimizer {
      adagrad { rate: 0.1 initial_accumulator: 1e-3 }
      weight_decay: 1e-7
      schedule {
        warm_up_pushes: 7
        cosine { pushes: 100 final: 0.125 }
      }
    }
    local_update { none {} }
  }
  stop { epochs: 2.5 seconds: 1e6 }
)pb";

class StoredJobTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/stored-job-XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    std::ofstream(folder_ + "/tiny.textproto") << kJob;
    ASSERT_OK_AND_ASSIGN(job_, LoadJob(folder_ + "/tiny.textproto"));
    content_.mutable_create()->set_job("tiny-4");
    content_.set_generation(9);
    *content_.mutable_context()->mutable_job() = job_;
  }

  std::string folder_;
  Job job_;
  ShardCheckpoint content_;
};

TEST_F(StoredJobTest, ComesBackAsItWas) {
  ASSERT_OK_AND_ASSIGN(const Job again, LoadStoredJob(content_, {}));
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(again, job_))
      << again.DebugString();
}

TEST_F(StoredJobTest, OverridesApplyAndMistakesNameTheCheckpoint) {
  ASSERT_OK_AND_ASSIGN(const Job changed,
                       LoadStoredJob(content_, {.overrides = {"stop.epochs=5", "seed=3"}}));
  EXPECT_EQ(changed.stop().epochs(), 5);
  EXPECT_EQ(changed.seed(), 3u);
  content_.mutable_context()->mutable_job()->mutable_downpour()->mutable_optimizer()->Clear();
  EXPECT_THAT(LoadStoredJob(content_, {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("the job of tiny-4 generation 9"), HasSubstr("optimizer"))));
  content_.mutable_context()->clear_job();
  EXPECT_THAT(LoadStoredJob(content_, {}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("name a job file")));
}

TEST_F(StoredJobTest, DataMustBeWhereTheyWereOrBeNamedAnew) {
  Dataset* const train = content_.mutable_context()->mutable_job()->mutable_train();
  train->mutable_npy()->set_images("/gone/\"Bilder\" \xc3\xa4\\1.npy");
  train->mutable_npy()->set_labels("/gone/labels.npy");
  EXPECT_THAT(
      LoadStoredJob(content_, {}).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("/gone/\"Bilder\" \xc3\xa4\\1.npy")));
  ASSERT_OK_AND_ASSIGN(const Job unchecked, LoadStoredJob(content_, {.check_data_files = false}));
  EXPECT_EQ(unchecked.train().npy().images(), "/gone/\"Bilder\" \xc3\xa4\\1.npy");
  ASSERT_OK_AND_ASSIGN(const Job moved,
                       LoadStoredJob(content_, {.overrides = {"train.npy.images=here.npy"},
                                                .check_data_files = false}));
  EXPECT_EQ(moved.train().npy().images(), std::filesystem::current_path().string() + "/here.npy");
}

// Labels 1.0, 2.0 and 10.0 of a table: builds have numbered them so, and as words.
class ClassOrderOfAStoredJob : public StoredJobTest {
 protected:
  void SetUp() override {
    StoredJobTest::SetUp();
    Save({"10.0", "2.0", "1.0"});
    ASSERT_OK_AND_ASSIGN(job_, LoadTable(""));
    *content_.mutable_context()->mutable_job() = job_;
  }
  void Save(const std::vector<std::string>& kinds) const {
    std::ofstream file(folder_ + "/a.csv");
    file << "size,kind\n";
    for (const std::string& kind : kinds) {
      file << "1," << kind << "\n";
    }
  }
  // `more` is of the training set.
  absl::StatusOr<Job> LoadTable(const std::string& more) const {
    const std::string path = folder_ + "/table.textproto";
    std::ofstream(path) << "model { input_shape: 1 layer { dense { units: 3 } } } batch_size: 1 "
                           "downpour { optimizer { sgd { rate: 0.1 } } } stop { epochs: 1 } "
                           "train { csv { file: \"a.csv\" label: \"kind\" } "
                        << more << " }";
    return LoadJob(path);
  }
  Dataset* Stored() { return content_.mutable_context()->mutable_job()->mutable_train(); }
  // What becomes of a job file that goes on with the stored job's model.
  absl::StatusOr<Dataset> Kept(const std::string& more) const {
    absl::StatusOr<Job> job = LoadTable(more);
    if (!job.ok()) {
      return job.status();
    }
    const absl::Status kept = KeepClassOrder(content_, &*job);
    return kept.ok() ? absl::StatusOr<Dataset>(job->train()) : kept;
  }
};

TEST_F(ClassOrderOfAStoredJob, IsThatOfItsModel) {
  EXPECT_EQ(job_.train().class_order(), Dataset::BY_VALUE);
  EXPECT_OK(LoadStoredJob(content_, {}).status());
  Stored()->clear_class_order();
  EXPECT_THAT(LoadStoredJob(content_, {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("/a.csv:2: "), HasSubstr("nothing says in which order"),
                             HasSubstr(R"(train.class_name: ["1.0", "10.0", "2.0"])"))));
  EXPECT_OK(LoadStoredJob(content_, {.overrides = {R"(train.class_name=["1.0","10.0","2.0"])"}})
                .status());
  Save({"b", "c", "a"});
  EXPECT_OK(LoadStoredJob(content_, {}).status()) << "builds agree about words";
}

TEST_F(ClassOrderOfAStoredJob, AJobFileTakesItOver) {
  ASSERT_OK_AND_ASSIGN(Dataset kept, Kept(""));
  EXPECT_EQ(kept.class_order(), Dataset::BY_VALUE);
  Stored()->clear_class_order();
  ASSERT_OK_AND_ASSIGN(kept, Kept(""));
  EXPECT_EQ(kept.class_order(), Dataset::UNTOLD);
  ASSERT_OK_AND_ASSIGN(kept, Kept(R"(class_name: ["10.0", "1.0", "2.0"])"));
  EXPECT_EQ(kept.class_name(0), "10.0") << "whoever lists them knows";
  Stored()->add_class_name("2.0");
  Stored()->add_class_name("10.0");
  Stored()->add_class_name("1.0");
  ASSERT_OK_AND_ASSIGN(kept, Kept(""));
  EXPECT_THAT(kept.class_name(), ::testing::ElementsAre("2.0", "10.0", "1.0"));
  content_.mutable_context()->clear_job();
  ASSERT_OK_AND_ASSIGN(kept, Kept(""));
  EXPECT_EQ(kept.class_order(), Dataset::UNTOLD);
}

TEST_F(ClassOrderOfAStoredJob, AnotherOneIsRefused) {
  const auto refused = [&](const std::string& had) {
    return StatusIs(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr("lists the classes in another order than tiny-4"),
                          HasSubstr("has numbered them: " + had + ";")));
  };
  EXPECT_OK(Kept(R"(class_name: ["1.0", "2.0", "10.0"])").status());
  EXPECT_THAT(Kept(R"(class_name: ["1.0", "10.0", "2.0"])").status(), refused("1.0, 2.0, 10.0"));
  Stored()->add_class_name("10.0");
  Stored()->add_class_name("1.0");
  Stored()->add_class_name("2.0");
  EXPECT_THAT(Kept(R"(class_name: ["1.0", "2.0", "10.0"])").status(), refused("10.0, 1.0, 2.0"));
  // Names of classes that are numbers already are for people.
  Stored()->clear_class_name();
  Save({"2", "1", "0"});
  EXPECT_OK(Kept(R"(class_name: ["owl", "cat", "dog"])").status());
}

}  // namespace
}  // namespace monsoon
