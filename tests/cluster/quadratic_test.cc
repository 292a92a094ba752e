// The minimiser on real shards, without coordinator and workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/testing/socket_folder.h"
#include "common/testing/status_matchers.h"
#include "ps_server/server/ps_server.h"
#include "tests/cluster/quadratic_run.h"

namespace monsoon {
namespace {

TEST(QuadraticTest, TheShardsAloneFindTheMinimum) {
  const std::string prefix = testing::UniqueSocketAddress() + "-";
  testing::QuadraticRun run{.seed = 11, .condition = 50};
  run.model.add_input_shape(40);
  run.model.add_layer()->mutable_dense()->set_units(5);
  std::vector<std::unique_ptr<PsServer>> shards(3);
  for (uint32_t i = 0; i < shards.size(); ++i) {
    PsServerOptions options;
    options.task = i;
    options.address = absl::StrCat(prefix, i);
    ASSERT_OK_AND_ASSIGN(shards[i], PsServer::Start(options));
    run.shards.push_back(options.address);
  }
  ASSERT_OK_AND_ASSIGN(const JobDescription end, testing::RunQuadratic(run));
  EXPECT_THAT(end.sandblaster().end_reason(), ::testing::StartsWith("converged"));
  const auto& trace = end.sandblaster().trace();
  ASSERT_GE(trace.size(), 3);
  EXPECT_LT(trace[trace.size() - 1].f(), 1e-6 * trace[0].f());
}

}  // namespace
}  // namespace monsoon
