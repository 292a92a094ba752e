// Optimizers and their kernels from protobuf text, for the tests of this folder. Text that is
// not valid fails the test.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "common/optimizer/optimizer.h"
#include "common/testing/status_matchers.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"

namespace monsoon::testing {

inline Optimizer Parse(const std::string& text) {
  Optimizer optimizer;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &optimizer)) << text;
  return optimizer;
}

inline std::unique_ptr<OptimizerKernel> Make(const std::string& text) {
  absl::StatusOr<std::unique_ptr<OptimizerKernel>> kernel = OptimizerKernel::Create(Parse(text));
  EXPECT_OK(kernel);
  return *std::move(kernel);
}

}  // namespace monsoon::testing
