// libmonsoon beside a sidecar that answers as the test says (scripted_sidecar.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "worker/client/monsoon.h"

namespace monsoon::testing {

class ReplicaTest : public ::testing::Test {
 protected:
  ~ReplicaTest() override {
    if (replica_ != nullptr) {
      EXPECT_EQ(monsoon_leave(replica_), MONSOON_OK) << monsoon_last_error();
      monsoon_free(replica_);
    }
  }
  void Join(const std::string& script) {
    const uint64_t shape[] = {16};
    const monsoon_tensor tensors[] = {{.name = "w",
                                       .shape = shape,
                                       .dimensions = 1,
                                       .kind = MONSOON_TRAINED,
                                       .aliases = nullptr,
                                       .alias_count = 0}};
    monsoon_join_options options{};
    options.size = sizeof(options);
    options.coordinator = "nobody:1";
    options.job = script.c_str();
    options.tensors = tensors;
    options.tensor_count = 1;
    options.sidecar = "worker/sidecar/scripted_sidecar";  // beside the test, in its runfiles
    ASSERT_EQ(monsoon_join(&options, &replica_), MONSOON_OK) << monsoon_last_error();
    EXPECT_EQ(monsoon_draw(replica_, &batch_, &event_), MONSOON_FAILED_PRECONDITION);
    ASSERT_EQ(monsoon_begin(replica_, &event_), MONSOON_OK) << monsoon_last_error();
  }
  // The first of the batch's samples; -1: there is none.
  int64_t Draw() {
    EXPECT_EQ(monsoon_draw(replica_, &batch_, &event_), MONSOON_OK) << monsoon_last_error();
    return batch_.count == 0 ? -1 : int64_t{batch_.samples[0]};
  }
  monsoon_code Step(bool unless_due = false, const uint32_t* absent = nullptr, size_t count = 0) {
    monsoon_step_info step{};
    step.size = sizeof(step);
    step.batches = 1;
    step.unless_due = unless_due ? 1 : 0;
    step.zero_gradient = 1;
    step.absent = absent;
    step.absent_count = count;
    return monsoon_step(replica_, &step, &event_);
  }
  monsoon_stats Stats() const {
    monsoon_stats stats{};
    stats.size = sizeof(stats);
    monsoon_get_stats(replica_, &stats);
    return stats;
  }
  uint64_t steps() const { return Stats().steps; }

  monsoon_replica* replica_ = nullptr;
  monsoon_batch batch_{};
  monsoon_event event_{};
};

}  // namespace monsoon::testing
