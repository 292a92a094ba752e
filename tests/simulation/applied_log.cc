#include "tests/simulation/applied_log.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "gtest/gtest.h"

namespace monsoon::simulation {
namespace {

float ValueAt(const PushBytes& push, uint32_t stripe, size_t i) {
  const std::byte* const begin =
      push.bytes.bytes().data() + stripe * PushBytes::StripeBytes(push.format);
  if (push.format == FLOAT32) {
    float value = 0.0f;
    std::memcpy(&value, begin + i * sizeof(float), sizeof(float));
    return value;
  }
  uint16_t upper = 0;  // BFLOAT16: the upper half of a float
  std::memcpy(&upper, begin + i * sizeof(upper), sizeof(upper));
  return std::bit_cast<float>(uint32_t{upper} << 16);
}

// proto/job.proto, message Schedule.
double RateFactor(const Schedule& schedule, uint64_t k) {
  double factor = 1.0;
  if (schedule.has_step()) {
    factor = std::pow(schedule.step().factor(), std::floor(k / schedule.step().every_pushes()));
  }
  if (k < schedule.warm_up_pushes()) {
    factor *= (static_cast<double>(k) + 1.0) / static_cast<double>(schedule.warm_up_pushes());
  }
  return factor;
}

// proto/job.proto, message Optimizer. float32, in the order of the formulas.
void Step(const Optimizer& optimizer, uint64_t k, float g, float* w, float* state) {
  const auto decay = static_cast<float>(optimizer.weight_decay());
  if (optimizer.clip_value() > 0.0) {
    const auto clip = static_cast<float>(optimizer.clip_value());
    g = std::min(std::max(g, -clip), clip);
  }
  if (decay != 0.0f) {
    g = g + decay * *w;
  }
  const double factor = RateFactor(optimizer.schedule(), k);
  if (optimizer.has_sgd()) {
    *w = *w - static_cast<float>(optimizer.sgd().rate() * factor) * g;
  } else if (optimizer.has_momentum()) {
    *state = static_cast<float>(optimizer.momentum().momentum()) * *state + g;
    *w = *w - static_cast<float>(optimizer.momentum().rate() * factor) * *state;
  } else {
    const double epsilon = optimizer.adagrad().epsilon();
    *state = *state + g * g;
    const float rate = static_cast<float>(optimizer.adagrad().rate() * factor);
    *w = *w - rate * g / (std::sqrt(*state) + static_cast<float>(epsilon == 0 ? 1e-8 : epsilon));
  }
}

}  // namespace

void AppliedLog::Applied(uint32_t stripe, SessionId session, uint64_t sequence,
                         std::shared_ptr<const PushBytes> push, uint64_t version) {
  stripes_[stripe].push_back({session, sequence, std::move(push)});
  ASSERT_EQ(version, stripes_[stripe].size()) << "the version of stripe " << stripe;
  uint64_t& seen = seen_[{stripe, session}];
  seen = std::max(seen, sequence);
}

void AppliedLog::Restored(uint32_t stripe, uint64_t version) {
  ASSERT_LE(version, stripes_[stripe].size()) << "stripe " << stripe;
  stripes_[stripe].resize(version);
}

uint64_t AppliedLog::Held(uint32_t stripe, SessionId session) const {
  uint64_t held = 0;
  for (const Entry& entry : stripes_[stripe]) {
    if (entry.session == session) {
      EXPECT_EQ(entry.sequence, held + 1)
          << "stripe " << stripe << ", session " << session.worker << "#" << session.incarnation;
      held = entry.sequence;
    }
  }
  return held;
}

uint64_t AppliedLog::Seen(uint32_t stripe, SessionId session) const {
  const auto found = seen_.find({stripe, session});
  return found == seen_.end() ? 0 : found->second;
}

AppliedLog::Content AppliedLog::Replay(uint32_t stripe, const Optimizer& optimizer,
                                       std::vector<float> initial) const {
  Content content{std::move(initial), {}};
  const float first = static_cast<float>(optimizer.adagrad().initial_accumulator());
  std::vector<float> state(content.parameters.size(), optimizer.has_adagrad() ? first : 0.0f);
  for (uint64_t k = 0; k < stripes_[stripe].size(); ++k) {
    for (size_t i = 0; i < content.parameters.size(); ++i) {
      Step(optimizer, k, ValueAt(*stripes_[stripe][k].push, stripe, i), &content.parameters[i],
           &state[i]);
    }
  }
  if (!optimizer.has_sgd()) {
    content.state = std::move(state);
  }
  return content;
}

}  // namespace monsoon::simulation
