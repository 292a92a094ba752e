// Pushes that have no gradient of some tensors (PushRequest.absent), beside what torch.optim makes
// of parameters whose grad is None: testdata/torch_absent.txt, which tests/interop/torch_absent.py
// writes and compares with the torch that is there.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/memory/aligned_floats.h"
#include "common/model/tensor_slices.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/range_kernel.h"
#include "common/optimizer/torch_table.h"
#include "common/testing/status_matchers.h"
#include "common/transport/shm/shared_slice.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"
#include "proto/shard_checkpoint.pb.h"
#include "proto/tensor.pb.h"
#include "ps_server/shard/stripe.h"

namespace monsoon {
namespace {

using testing::ReadTorchTable;
using testing::TorchGradient;

constexpr uint64_t kEpoch = 5;
constexpr size_t kFloats = 48;
// Of one float each, a line apart; among them the job's numbers 3, 4 and 6.
const std::vector<TensorSlice> kTensors = {{3, {0, 1}}, {4, {16, 17}}, {6, {32, 33}}};
constexpr size_t kPlaces[] = {0, 16, 32};

constexpr const char* kCases[] = {
    "momentum { rate: 0.01 momentum: 0.9 } weight_decay: 0.1",
    "adagrad { rate: 0.05 epsilon: 1e-4 } weight_decay: 0.1",
    "adam { rate: 0.02 beta1: 0.8 beta2: 0.95 epsilon: 1e-4 } weight_decay: 0.1",
    "adam_w { rate: 0.02 beta1: 0.8 beta2: 0.95 epsilon: 1e-4 weight_decay: 0.1 }",
    "rms_prop { rate: 0.02 alpha: 0.9 epsilon: 1e-4 momentum: 0.9 } weight_decay: 0.1",
};
constexpr int kSteps = 40;

Optimizer Parse(const char* text) {
  Optimizer optimizer;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &optimizer)) << text;
  return optimizer;
}

// A stripe of its own, and the only session's pushes to it.
class Pushed {
 public:
  explicit Pushed(std::unique_ptr<OptimizerKernel> kernel)
      : kernel_(std::move(kernel)), slice_(*SharedSlice::Create({kEpoch, kFloats, kFloats})) {
    Renew();
    std::vector<float> start(kFloats, 0.0f);
    for (size_t i = 0; i < 3; ++i) {
      start[kPlaces[i]] = testing::kTorchStart[i];
    }
    stripe_->Write(start);
  }

  // The stripe as a new life of the shard makes it.
  void Renew() {
    stripe_ = std::make_unique<Stripe>(&slice_, 0, kernel_.get(), kEpoch,
                                       AlignedFloats(Stripe::StateFloats(*kernel_, kFloats)),
                                       Stripe::Options(), kTensors);
    stripe_->OpenSession({0, 1});
  }

  // As a generation keeps it.
  void CutAndRestore() {
    std::vector<float> parameters(kFloats);
    std::vector<float> state(Stripe::StateFloats(*kernel_, kFloats));
    const StripeRecord cut = stripe_->Cut(parameters, state);
    Renew();
    std::ranges::copy(parameters, stripe_->MutableFloats().parameters.begin());
    std::ranges::copy(state, stripe_->MutableFloats().state.begin());
    stripe_->Restore(cut, nullptr);
  }

  void Push(const std::vector<float>& g, const std::vector<uint32_t>& absent) {
    std::vector<float> gradient(kFloats, 0.0f);
    for (size_t i = 0; i < 3; ++i) {
      gradient[kPlaces[i]] = g[i];
    }
    Stripe::Push push;
    push.session = {0, 1};
    push.sequence = ++sequence_;
    push.gradient = gradient;
    push.absent = absent;
    EXPECT_EQ(stripe_->Apply(std::move(push)).verdict(), APPLIED);
  }

  std::vector<float> values() const {
    std::vector<float> copy(kFloats);
    EXPECT_TRUE(stripe_->Copy(std::nullopt, copy).has_value());
    return {copy[kPlaces[0]], copy[kPlaces[1]], copy[kPlaces[2]]};
  }
  uint64_t version() const { return stripe_->version(); }

 private:
  const std::unique_ptr<OptimizerKernel> kernel_;
  SharedSlice slice_;
  std::unique_ptr<Stripe> stripe_;
  uint64_t sequence_ = 0;
};

TEST(StripeAbsentTest, ATensorWithoutGradientIsLeftAloneAsByTorch) {
  const auto table = ReadTorchTable("ps_server/shard/testdata/torch_absent.txt");
  ASSERT_EQ(table.size(), 5u * kSteps);
  for (int number = 0; number < 5; ++number) {
    ASSERT_OK_AND_ASSIGN(auto kernel, OptimizerKernel::Create(Parse(kCases[number])));
    Pushed pushed(std::move(kernel));
    for (int step = 1; step <= kSteps; ++step) {
      const bool lacks = step % 2 == 0;
      // What the record holds of it counts nothing.
      pushed.Push(
          {TorchGradient(step, 0), lacks ? 7.0f : TorchGradient(step, 1), TorchGradient(step, 2)},
          lacks ? std::vector<uint32_t>{1, 4, 9} : std::vector<uint32_t>());
      if (step == 7 || step == 20) {
        pushed.CutAndRestore();
      }
      const std::vector<float>& expected = table.at({number, step});
      for (size_t i = 0; i < 3; ++i) {
        // Two units in the last place of 1 for each step so far.
        EXPECT_NEAR(pushed.values()[i], expected[i], 2 * 0x1p-23 * step)
            << kCases[number] << ", step " << step << ", parameter " << i;
      }
    }
    EXPECT_EQ(pushed.version(), uint64_t{kSteps}) << "schedules go by all pushes";
  }
}

// The kernel of a range, which has pieces of its own, and an average around it.
TEST(StripeAbsentTest, APushWithoutATensorIsOneThatTheTensorHasNotSeen) {
  for (const char* text : {"adam_w { rate: 0.1 } weight_decay_weights_only: true",
                           "adam_w { rate: 0.1 } weight_decay_weights_only: true average { }",
                           "nesterov { rate: 0.1 momentum: 0.9 period: 3 }"}) {
    SCOPED_TRACE(text);
    const auto make = [text] {
      return *CreateRangeKernel(Parse(text), {.biases = {{16, 17}, {32, 33}}}, {0, kFloats});
    };
    Pushed pushed(make()), fewer(make()), all(make());
    for (int step = 1; step <= 12; ++step) {
      const std::vector<float> g = {TorchGradient(step, 0), TorchGradient(step, 1),
                                    TorchGradient(step, 2)};
      all.Push(g, {});
      if (step % 3 == 1) {
        pushed.Push(g, {4, 6});
      } else {
        pushed.Push(g, {});
        fewer.Push(g, {});
      }
    }
    EXPECT_EQ(pushed.values()[0], all.values()[0]);
    EXPECT_EQ(pushed.values()[1], fewer.values()[1]);
    EXPECT_EQ(pushed.values()[2], fewer.values()[2]);
  }
}

TEST(StripeAbsentTest, APushWithoutAnyGradientMovesNothing) {
  Pushed pushed(*OptimizerKernel::Create(Parse(kCases[0])));
  pushed.Push({1, 1, 1}, {});
  const std::vector<float> before = pushed.values();
  pushed.Push({1, 1, 1}, {3, 4, 6});
  EXPECT_EQ(pushed.values(), before);
  EXPECT_EQ(pushed.version(), 2u);
}

}  // namespace
}  // namespace monsoon
