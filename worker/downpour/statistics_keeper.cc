#include "worker/downpour/statistics_keeper.h"

#include <algorithm>

#include "common/model/bias_ranges.h"
#include "worker/downpour/gradient_clip.h"

namespace monsoon {

StatisticsKeeper::StatisticsKeeper(const ParameterLayout& layout, const Options& options)
    : parts_(StatisticRanges(layout, {0, layout.size()})),
      of_network_(!parts_.empty() && !layout.layers().empty()),
      mean_of_steps_(of_network_ && !options.local_update),
      push_(parts_.empty() || !options.values ? Push::kDifferences
            : options.local_update            ? Push::kOfReplica
            : of_network_                     ? Push::kOfRounds
                                              : Push::kOfProgram) {}

void StatisticsKeeper::MeanOfRound(std::span<float> gradient, size_t batches) const {
  if (of_network_) {
    ScaleParts(gradient, parts_, 1.0 / static_cast<double>(batches));
  }
}

void StatisticsKeeper::TakeStep(std::span<float> front, std::span<float> gradient) const {
  if (push_ != Push::kOfRounds && push_ != Push::kOfProgram) {
    return;
  }
  for (const Slice& part : parts_) {
    for (uint64_t i = part.begin; i < part.end; ++i) {
      if (push_ == Push::kOfRounds) {
        gradient[i] = front[i] - gradient[i];
      } else {
        front[i] -= gradient[i];
      }
    }
  }
}

void StatisticsKeeper::KeepForPush(std::span<const float> front) {
  // What lands before the push leaves is not of its steps. A local update has these on top of
  // what lands, so that they are taken as late as can be.
  if (push_ == Push::kOfProgram) {
    kept_ = Values(front);
  }
}

void StatisticsKeeper::WriteTo(std::span<float> gradient, std::span<const float> front) const {
  if (push_ != Push::kOfProgram && push_ != Push::kOfReplica) {
    return;
  }
  const std::vector<float> own = push_ == Push::kOfProgram ? kept_ : Values(front);
  std::span<const float> values = own;
  for (const Slice& part : parts_) {
    std::ranges::copy(values.first(part.size()), gradient.subspan(part.begin).begin());
    values = values.subspan(part.size());
  }
}

void StatisticsKeeper::MeanOfPush(std::span<float> gradient, uint32_t steps) const {
  if (mean_of_steps_ && steps > 1) {
    ScaleParts(gradient, parts_, 1.0 / steps);
  }
}

std::vector<float> StatisticsKeeper::Values(std::span<const float> w) const {
  std::vector<float> values;
  for (const Slice& part : parts_) {
    const std::span<const float> of_part = w.subspan(part.begin, part.size());
    values.insert(values.end(), of_part.begin(), of_part.end());
  }
  return values;
}

std::vector<float> StatisticsKeeper::Landing(std::span<const float> w) const {
  return push_ == Push::kOfReplica ? Values(w) : std::vector<float>();
}

void StatisticsKeeper::LandUpdated(std::span<const float> fetched, std::span<const float> local,
                                   std::span<float> w) const {
  if (push_ == Push::kOfReplica) {
    Land(fetched, local, /*all=*/false, w);
  }
}

void StatisticsKeeper::LandOpen(std::span<const float> local, std::span<float> w) const {
  if (push_ == Push::kOfProgram) {
    Land(Values(w), local, /*all=*/true, w);
  }
}

void StatisticsKeeper::Land(std::span<const float> fetched, std::span<const float> local, bool all,
                            std::span<float> w) const {
  size_t at = 0;
  for (const Slice& part : parts_) {
    for (uint64_t i = part.begin; i < part.end; ++i, ++at) {
      if (all || w[i] != fetched[at]) {
        w[i] = local.empty() ? fetched[at] : 0.5f * fetched[at] + 0.5f * local[i];
      }
    }
  }
}

}  // namespace monsoon
