#include "common/transport/frame/fault.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/random.h"

namespace monsoon {
namespace {

constexpr uint32_t kMaxDelayMs = 60'000;

absl::Status PartError(absl::string_view part, absl::string_view want) {
  return absl::InvalidArgumentError(absl::StrCat(
      "fault: \"", part, "\" ", want, "; write for example delay_ms=20,drop=0.01,seed=1"));
}

bool ParseDelay(absl::string_view value, uint32_t* delay_ms) {
  return absl::SimpleAtoi(value, delay_ms) && *delay_ms <= kMaxDelayMs;
}

}  // namespace

absl::StatusOr<FaultOptions> ParseFaultOptions(absl::string_view text) {
  FaultOptions options;
  for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> setting =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    const auto& [name, value] = setting;
    if (name == "delay_ms" || name == "compute_delay_ms") {
      if (!ParseDelay(value, name == "delay_ms" ? &options.delay_ms : &options.compute_delay_ms)) {
        return PartError(part, absl::StrCat("must be whole milliseconds up to ", kMaxDelayMs));
      }
    } else if (name == "drop") {
      if (!absl::SimpleAtod(value, &options.drop) || !(options.drop >= 0.0 && options.drop < 1.0)) {
        return PartError(part, "must be a probability in [0, 1)");
      }
    } else if (name == "break_device_after") {
      if (!absl::SimpleAtoi(value, &options.break_device_after)) {
        return PartError(part, "must be a whole number of gradients");
      }
    } else if (name == "seed") {
      if (!absl::SimpleAtoi(value, &options.seed)) {
        return PartError(part, "must be a whole number");
      }
    } else {
      return PartError(part, "is not known");
    }
  }
  return options;
}

Fault FaultInjector::Next() {
  uint64_t number;
  {
    MutexLock lock(&mutex_);
    number = count_++;
  }
  Fault fault;
  fault.delay = absl::Milliseconds(options_.delay_ms);
  const PhiloxStream dice(options_.seed, StreamKind::kTest);
  if (dice.Uniform(2 * number) < options_.drop) {
    fault.loss = dice.Bits(2 * number + 1) % 2 == 0 ? Fault::Loss::kRequest : Fault::Loss::kReply;
  }
  return fault;
}

}  // namespace monsoon
