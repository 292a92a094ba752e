#include "common/checkpoint/stored_job.h"

#include <filesystem>
#include <fstream>
#include <string>

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

}  // namespace
}  // namespace monsoon
