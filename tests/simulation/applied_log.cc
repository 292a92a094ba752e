#include "tests/simulation/applied_log.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/codec/tensor_codec.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace monsoon::simulation {
namespace {

// proto/optimizer.proto, message Schedule.
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

// proto/optimizer.proto, message Optimizer. float32, in the order of the formulas.
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

// proto/tensor.proto, PushRequest.part: so far towards where the step with g / part leads.
void StepPart(const Optimizer& optimizer, uint64_t k, float part, float g, float* w, float* state) {
  float whole_w = *w, whole_state = *state;
  Step(optimizer, k, 1.0f / part * g, &whole_w, &whole_state);
  *w = *w + part * (whole_w - *w);
  *state = *state + part * (whole_state - *state);
}

}  // namespace

std::vector<float> DecodeStripe(WireFormat format, std::span<const std::byte> bytes) {
  std::vector<float> values(kStripeFloats);
  if (format == FLOAT32) {
    EXPECT_EQ(bytes.size(), values.size() * sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
  } else if (format == BFLOAT16) {
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t upper = 0;  // half of a float
      std::memcpy(&upper, bytes.data() + i * sizeof(upper), sizeof(upper));
      values[i] = std::bit_cast<float>(uint32_t{upper} << 16);
    }
  } else {
    EXPECT_OK(TensorCodec::Find(format)->Decode(bytes, values));
  }
  return values;
}

void AppliedLog::Applied(uint32_t stripe, Entry entry) {
  uint64_t& seen = seen_[{stripe, entry.session}];
  seen = std::max(seen, entry.sequence);
  stripes_[stripe].push_back(std::move(entry));
}

void AppliedLog::Restored(uint32_t stripe, uint64_t version, uint64_t open) {
  std::vector<Entry>& entries = stripes_[stripe];
  const auto after = std::ranges::upper_bound(entries, version, {}, &Entry::round);
  const size_t kept = static_cast<size_t>(after - entries.begin()) + open;
  ASSERT_LE(kept, entries.size()) << "stripe " << stripe;
  entries.resize(kept);
  CheckVersion(stripe, version, open);
}

void AppliedLog::CheckVersion(uint32_t stripe, uint64_t version, uint64_t open) const {
  uint64_t round = 0, in_round = 0;
  for (const Entry& entry : stripes_[stripe]) {
    ASSERT_TRUE(entry.round == round || entry.round == round + 1) << "stripe " << stripe;
    in_round = entry.round == round ? in_round + 1 : 1;
    round = entry.round;
  }
  ASSERT_EQ(version, open > 0 ? round - 1 : round) << "stripe " << stripe;
  ASSERT_TRUE(open == 0 || open == in_round) << "stripe " << stripe;
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

AppliedLog::Content AppliedLog::Replay(uint32_t stripe, uint64_t version,
                                       const Optimizer& optimizer,
                                       std::vector<float> initial) const {
  Content content{std::move(initial), {}};
  const float first = static_cast<float>(optimizer.adagrad().initial_accumulator());
  std::vector<float> state(content.parameters.size(), optimizer.has_adagrad() ? first : 0.0f);
  auto entry = stripes_[stripe].begin();
  const auto end = stripes_[stripe].end();
  for (uint64_t k = 0; k < version; ++k) {
    const auto begin = entry;
    std::vector<double> sum(content.parameters.size());
    double weight = 0, parts = 0;
    for (; entry != end && entry->round == k + 1; ++entry) {
      weight += entry->weight;
      parts += entry->weight * entry->part;
      for (size_t i = 0; i < sum.size(); ++i) {
        sum[i] += entry->weight * static_cast<double>(entry->gradient[i]);
      }
    }
    const bool alone = entry - begin == 1;
    for (size_t i = 0; i < sum.size(); ++i) {
      const float g = alone ? begin->gradient[i] : static_cast<float>(sum[i] / weight);
      const auto part = static_cast<float>(parts / weight);
      if (part < 1.0f) {
        StepPart(optimizer, k, part, g, &content.parameters[i], &state[i]);
      } else {
        Step(optimizer, k, g, &content.parameters[i], &state[i]);
      }
    }
  }
  if (!optimizer.has_sgd()) {
    content.state = std::move(state);
  }
  return content;
}

}  // namespace monsoon::simulation
