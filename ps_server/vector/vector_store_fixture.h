// A VectorStore over a slice with padding and biases, for its tests.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "ps_server/vector/memory_budget.h"
#include "ps_server/vector/operation_log.h"
#include "ps_server/vector/vector_store.h"

namespace monsoon::testing {

using Vector = std::vector<float>;

inline constexpr size_t kStripe = 64;
inline constexpr size_t kFloats = 3 * kStripe + 32;  // a short last stripe
inline constexpr uint64_t kBegin = 4096;             // of the slice in the whole vector
inline constexpr uint64_t kVectorBytes = kFloats * sizeof(float);

class FakeParameters : public SliceParameters {
 public:
  void TakeStripe(uint32_t stripe, std::span<float> out) override {
    std::copy_n(values.begin() + static_cast<ptrdiff_t>(stripe * kStripe), out.size(), out.begin());
  }
  void WriteStripe(uint32_t stripe, std::span<const float> parameters) override {
    std::ranges::copy(parameters, values.begin() + static_cast<ptrdiff_t>(stripe * kStripe));
  }
  Vector values = Vector(kFloats, 0.0f);
};

inline SliceShape Shape(uint64_t begin = kBegin, uint64_t floats = kFloats) {
  SliceShape shape{"job-1", begin, floats, kStripe, {}, {}, {}};
  if (begin == kBegin) {
    shape.padding.push_back({kBegin + 60, kBegin + 64});
    shape.biases.push_back({kBegin + 50, kBegin + 60});
  }
  return shape;
}

class VectorStoreTest : public ::testing::Test {
 protected:
  // A request with the next id.
  VectorRequest Next() {
    VectorRequest request;
    request.set_op_id(last_id_ + 1);
    return request;
  }
  absl::StatusOr<VectorReply> Run(const VectorRequest& request) {
    absl::StatusOr<VectorReply> reply = store_.Execute(request);
    if (reply.ok() && request.op_id() > last_id_) {
      last_id_ = request.op_id();
      logged_ += OperationLog::BytesFor(request, static_cast<uint64_t>(reply->scalar_size()));
    }
    return reply;
  }
  absl::Status Fill(const std::string& out, double value) {
    VectorRequest request = Next();
    request.mutable_fill()->set_out(out);
    request.mutable_fill()->set_value(value);
    return Run(request).status();
  }
  absl::Status Uniform(const std::string& out, uint32_t stream, double low = -1, double high = 1) {
    VectorRequest request = Next();
    VectorUniform* uniform = request.mutable_uniform();
    uniform->set_out(out);
    uniform->set_seed(5);
    uniform->set_stream(stream);
    uniform->set_low(low);
    uniform->set_high(high);
    return Run(request).status();
  }
  absl::StatusOr<VectorReply> Free(const std::vector<std::string>& names) {
    VectorRequest request = Next();
    request.mutable_only_free();
    request.mutable_free()->Assign(names.begin(), names.end());
    return Run(request);
  }
  absl::StatusOr<VectorReply> Open(uint64_t evaluation, uint32_t contributions, bool probe) {
    VectorRequest request = Next();
    request.mutable_open_evaluation()->set_evaluation(evaluation);
    request.mutable_open_evaluation()->set_contributions(contributions);
    request.mutable_open_evaluation()->set_probe(probe);
    return Run(request);
  }
  VectorRequest CloseRequest(uint64_t evaluation, const std::string& out) {
    VectorRequest request = Next();
    request.mutable_close_evaluation()->set_evaluation(evaluation);
    request.mutable_close_evaluation()->set_out(out);
    request.mutable_close_evaluation()->set_factor(0.5);
    return request;
  }
  void Contribute(uint64_t evaluation, uint32_t contribution, const Vector& values) {
    for (uint32_t stripe = 0; stripe * kStripe < kFloats; ++stripe) {
      const size_t begin = stripe * kStripe;
      EXPECT_EQ(
          store_
              .Contribute(evaluation, contribution, stripe,
                          std::span(values).subspan(begin, std::min(kStripe, kFloats - begin)))
              .verdict,
          APPLIED);
    }
  }
  Vector Get(const std::string& name) {
    const auto vector = store_.Find(name);
    EXPECT_OK(vector);
    return vector.ok() ? Vector((*vector)->data(), (*vector)->data() + (*vector)->size())
                       : Vector();
  }

  static constexpr uint64_t kBudget = 64 << 10;
  MemoryBudget budget_{"ps/0", kBudget};
  FakeParameters parameters_;
  VectorStore store_{Shape(), &parameters_, &budget_};
  uint64_t last_id_ = 0;
  uint64_t logged_ = 0;  // bytes of the operations that are remembered, those in `before` apart
};

}  // namespace monsoon::testing
