#include "common/config/override.h"

#include <limits>

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/job.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

TEST(ApplyOverride, SetsFieldsOfEveryType) {
  Job job;
  EXPECT_OK(ApplyOverride("seed=18446744073709551615", &job));
  EXPECT_OK(ApplyOverride(" downpour.n_fetch = 4 ", &job));
  EXPECT_OK(ApplyOverride("downpour.overlap=NONE", &job));
  EXPECT_OK(ApplyOverride("name=plain", &job));
  EXPECT_OK(ApplyOverride("train.idx.images=\"quoted\"", &job));
  EXPECT_OK(ApplyOverride("train.idx.labels=a = b", &job));
  EXPECT_OK(ApplyOverride("stop={epochs: 2.5 steps: 7}", &job));
  EXPECT_OK(ApplyOverride("model.input_shape=[1, 28, 28]", &job));
  EXPECT_OK(ApplyOverride("model.layer=[{relu {}}, {dense {units: 5}}]", &job));
  EXPECT_OK(ApplyOverride("model.layer[1].dense.units=64", &job));
  EXPECT_OK(ApplyOverride("model.layer[0]={tanh {}}", &job));
  EXPECT_EQ(job.seed(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(job.downpour().n_fetch(), 4u);
  EXPECT_EQ(job.downpour().overlap(), NONE);
  EXPECT_EQ(job.name(), "plain");
  EXPECT_EQ(job.train().idx().images(), "quoted");
  EXPECT_EQ(job.train().idx().labels(), "a = b");
  EXPECT_EQ(job.stop().epochs(), 2.5);
  EXPECT_EQ(job.stop().steps(), 7u);
  EXPECT_EQ(job.model().input_shape_size(), 3);
  EXPECT_TRUE(job.model().layer(0).has_tanh());
  EXPECT_EQ(job.model().layer(1).dense().units(), 64u);
}

TEST(ApplyOverride, ReplacesLikeAnEdit) {
  Job job;
  job.mutable_stop()->set_epochs(5);
  job.mutable_model()->add_input_shape(3);
  job.mutable_downpour()->mutable_optimizer()->mutable_adagrad()->set_rate(0.1);
  EXPECT_OK(ApplyOverride("stop={steps: 1}", &job));
  EXPECT_EQ(job.stop().epochs(), 0.0);
  EXPECT_OK(ApplyOverride("model.input_shape=784", &job));
  EXPECT_EQ(job.model().input_shape_size(), 1);
  EXPECT_OK(ApplyOverride("downpour.optimizer.sgd.rate=0.5", &job));
  EXPECT_FALSE(job.downpour().optimizer().has_adagrad());
  EXPECT_OK(ApplyOverride("downpour.optimizer.sgd.rate=0", &job));
  EXPECT_EQ(job.downpour().optimizer().sgd().rate(), 0.0);
}

TEST(ApplyOverride, NamesThePathAndSuggests) {
  struct Case {
    const char* assignment;
    const char* line;
  };
  for (const auto& [assignment, line] : std::vector<Case>{
           {"downpour.n_fech=4",
            "downpour.n_fech: Downpour has no field \"n_fech\"; did you mean "
            "\"downpour.n_fetch\"?"},
           {"downpour.optimizer=sgd { rate: 1 }",
            "downpour.optimizer: expected a message, found sgd; write "
            "--set='downpour.optimizer={ sgd { rate: 1 } }'"},
           {"sed=3", "sed: Job has no field \"sed\"; did you mean \"seed\"?"},
           {"seed", "expected PATH=VALUE, as in downpour.n_fetch=4"},
           {"=3", "expected PATH=VALUE, as in downpour.n_fetch=4"},
           {"seed=", "seed: it has no value"},
           {"seed=-1", "seed: -1 is out of range 0 .. 18446744073709551615"},
           {"seed=abc", "seed: expected an integer, found abc"},
           {"seed=3 batch_size: 4",
            "seed: the value sets \"batch_size\" as well; use a --set for "
            "each"},
           {"seed.x=3", "seed: it is a single value and has no fields"},
           {"seed[0]=3", "seed[0]: set the whole list; write seed=[VALUE, ...]"},
           {"downpour[0].n_fetch=3", "downpour[0]: it is not a list and takes no index"},
           {"model.layer.name=a",
            "model.layer: it is a list of 0: name one by its index; write model.layer[0]"},
           {"model.layer[2].name=a", "model.layer[2]: the list has 0 elements, the first is [0]"},
           {"model.layer[x].name=a", "model.layer[x]: an index is written as [0]"},
           {"downpour.overlap=ASINC",
            "downpour.overlap: expected one of ASYNC, NONE, found ASINC; did you mean \"ASYNC\"?"},
           {"stop.epochs=nan", "stop.epochs: nan is not a finite number"},
           {"stop={epochs: 1", "stop: '{' is never closed; add '}'"},
       }) {
    Job job;
    const absl::Status status = ApplyOverride(assignment, &job);
    EXPECT_EQ(std::string(status.message()),
              std::string("--set ") + assignment + ": error: " + line);
    EXPECT_EQ(job.ByteSizeLong(), 0u) << assignment;
  }
}

}  // namespace
}  // namespace monsoon
