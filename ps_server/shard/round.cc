#include "ps_server/shard/round.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "proto/downpour.pb.h"
#include "ps_server/vector/fixed_point.h"

namespace monsoon {
namespace {

size_t Lines(size_t floats) { return (floats + kLineFloats - 1) / kLineFloats; }

std::vector<int16_t> Exponents(std::span<const float> parameters) {
  std::vector<float> maxima(Lines(parameters.size()), 1.0f);
  RaiseMaxima(parameters, maxima);
  const int bits = ValueBits(Round::kMostPushes);
  std::vector<int16_t> exponents(maxima.size());
  for (size_t line = 0; line < maxima.size(); ++line) {
    // Parameters that have left the finite numbers have no lines of their own.
    const float maximum = maxima[line] <= FLT_MAX ? maxima[line] : FLT_MAX;
    exponents[line] = QuantumExponent(maximum, bits);
  }
  return exponents;
}

}  // namespace

RoundRule RoundRule::From(const Rounds& rounds, const Clock* clock) {
  return {.quorum = rounds.quorum(),
          .adaptive_share = static_cast<float>(rounds.adaptive_share()),
          .grace = absl::Seconds(rounds.grace_seconds()),
          .clock = clock};
}

absl::Status Round::Add(const Push& push, std::span<const float> parameters, absl::Duration now,
                        const RoundRule& rule) {
  std::span<const float> difference = push.difference;
  CHECK_EQ(difference.size(), sum_.size());
  if (pushes_ >= kMostPushes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the round has ", pushes_, " differences already"));
  }
  std::vector<float> scaled;
  const float factor = push.weight * push.damping;
  if (factor != 1.0f) {
    scaled.resize(difference.size());
    std::ranges::transform(difference, scaled.begin(), [factor](float g) { return factor * g; });
    difference = scaled;
  }
  const std::vector<int16_t> exponents = Exponents(parameters);
  const int bits = ValueBits(kMostPushes);
  // All of it or nothing.
  for (size_t line = 0; line < exponents.size(); ++line) {
    const double bound = std::ldexp(1.0, exponents[line] + bits);
    const size_t end = std::min((line + 1) * kLineFloats, difference.size());
    for (size_t i = line * kLineFloats; i < end; ++i) {
      if (!(std::abs(static_cast<double>(difference[i])) <= bound)) {
        return absl::InvalidArgumentError(absl::StrCat("value ", i, " of the difference is ",
                                                       difference[i], " with weight ", push.weight,
                                                       "; a round sums up to ", bound));
      }
    }
  }
  std::vector<float> maxima(exponents.size(), 0.0f);
  CHECK(AddFixedPoint(difference, exponents, bits, maxima, sum_));
  Member& member = members_[push.session];
  if (member.pushes++ == 0) {
    member.first = push.sequence;
  }
  member.weight += push.weight;
  member.whole += static_cast<double>(push.weight) * push.part;
  ++pushes_;
  if (rule.quorum > 0 && Learners() >= rule.quorum) {
    quorum_since_ = std::min(quorum_since_, now);
  }
  if (rule.adaptive_share > 0 && push.patience > absl::ZeroDuration()) {
    awaited_at_ns_ = std::min(awaited_at_ns_,
                              absl::ToInt64Nanoseconds(now + rule.adaptive_share * push.patience));
  }
  return absl::OkStatus();
}

uint32_t Round::Learners() const {
  uint32_t learners = 0;
  const SessionId* before = nullptr;  // sessions of one worker are neighbours
  for (const auto& [session, member] : members_) {
    learners += before == nullptr || before->worker != session.worker ? 1 : 0;
    before = &session;
  }
  return learners;
}

bool Round::HasQuorum(const RoundRule& rule, absl::Duration now) {
  if (rule.quorum == 0 || Learners() < rule.quorum) {
    return false;
  }
  quorum_since_ = std::min(quorum_since_, now);  // of a restored one
  return now - quorum_since_ >= rule.grace || absl::ToInt64Nanoseconds(now) >= awaited_at_ns_;
}

float Round::Close(std::span<const float> parameters, std::span<float> out) {
  CHECK(!members_.empty());
  double weight = 0, whole = 0;
  for (const auto& [session, member] : members_) {
    weight += member.weight;
    whole += member.whole;
  }
  RoundFixedPoint(sum_, Exponents(parameters), 1.0 / weight, 0.0, {}, out);
  std::ranges::fill(sum_, 0);
  members_.clear();
  pushes_ = 0;
  quorum_since_ = absl::InfiniteDuration();
  awaited_at_ns_ = INT64_MAX;
  return static_cast<float>(whole / weight);
}

void Round::Split(std::span<float> low, std::span<float> high) const {
  CHECK_EQ(low.size(), sum_.size());
  CHECK_EQ(high.size(), sum_.size());
  for (size_t i = 0; i < sum_.size(); ++i) {
    const auto bits = static_cast<uint64_t>(sum_[i]);
    low[i] = std::bit_cast<float>(static_cast<uint32_t>(bits));
    high[i] = std::bit_cast<float>(static_cast<uint32_t>(bits >> 32));
  }
}

void Round::AddMembersTo(StripeRecord* record) const {
  for (const auto& [session, member] : members_) {
    RoundMember* const added = record->add_member();
    added->set_worker(session.worker);
    added->set_incarnation(session.incarnation);
    added->set_pushes(member.pushes);
    added->set_weight(member.weight);
    added->set_first(member.first);
    added->set_whole(member.whole);
  }
}

void Round::Restore(const StripeRecord& record) {
  const size_t floats = sum_.size();
  const auto* const words = reinterpret_cast<const float*>(sum_.data());
  const std::vector<float> low(words, words + floats);
  const std::vector<float> high(words + floats, words + 2 * floats);
  for (size_t i = 0; i < floats; ++i) {
    sum_[i] = static_cast<int64_t>(uint64_t{std::bit_cast<uint32_t>(high[i])} << 32 |
                                   std::bit_cast<uint32_t>(low[i]));
  }
  for (const RoundMember& member : record.member()) {
    members_[{member.worker(), member.incarnation()}] = {
        member.pushes(), member.weight(), member.first(),
        member.whole() == 0 ? member.weight() : member.whole()};
    pushes_ += member.pushes();
  }
}

}  // namespace monsoon
