#include "ps_server/vector/contribution_sum.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "ps_server/vector/fixed_point.h"

namespace monsoon {
namespace {

constexpr uint64_t kWordBits = 64;

size_t Words(uint32_t contributions) { return (contributions + kWordBits - 1) / kWordBits; }

}  // namespace

// What one stripe has of the sum.
struct ContributionSum::Part {
  explicit Part(size_t size) : floats(size), lines((size + kLineFloats - 1) / kLineFloats) {}

  const size_t floats;
  const size_t lines;
  mutable Mutex mutex;
  uint64_t evaluation ABSL_GUARDED_BY(mutex) = 0;  // that is open; 0: none
  uint32_t contributions ABSL_GUARDED_BY(mutex) = 0;
  uint32_t count ABSL_GUARDED_BY(mutex) = 0;  // of contributions seen
  bool probe ABSL_GUARDED_BY(mutex) = false;
  bool overflow ABSL_GUARDED_BY(mutex) = false;
  std::vector<uint64_t> seen ABSL_GUARDED_BY(mutex);      // a bit per contribution
  std::vector<int64_t> sum ABSL_GUARDED_BY(mutex);        // per float, in quanta
  std::vector<int16_t> exponents ABSL_GUARDED_BY(mutex);  // per line
  std::vector<float> maxima ABSL_GUARDED_BY(mutex);       // per line, of this evaluation
  std::vector<float> noted ABSL_GUARDED_BY(mutex);        // per line, of the last one

  void Open(uint64_t id, uint32_t expected, bool is_probe) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  ContributionSum::Answer Add(uint64_t id, uint32_t contribution, std::span<const float> values)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Some line's values were too small for its quantum.
  bool TooCoarse() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void KeepMaxima() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  uint32_t FirstMissing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  uint64_t Bytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  uint64_t BytesAfterOpen(uint32_t expected, bool is_probe) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
};

void ContributionSum::Part::Open(uint64_t id, uint32_t expected, bool is_probe) {
  evaluation = id;
  contributions = expected;
  count = 0;
  probe = is_probe;
  overflow = false;
  seen.assign(Words(expected), 0);
  maxima.assign(lines, 0.0f);
  noted.resize(lines, 0.0f);
  if (is_probe) {
    return;
  }
  sum.assign(floats, 0);
  exponents.resize(lines);
  const float most = *std::ranges::max_element(noted);
  const int bits = ValueBits(expected);
  for (size_t line = 0; line < lines; ++line) {
    const float expectation = noted[line] > 0.0f ? noted[line] : most > 0.0f ? most : 1.0f;
    exponents[line] = QuantumExponent(expectation, bits);
  }
}

ContributionSum::Answer ContributionSum::Part::Add(uint64_t id, uint32_t contribution,
                                                   std::span<const float> values) {
  CHECK_EQ(values.size(), floats);
  if (id == 0 || id != evaluation) {
    return {REFUSED_CLOSED, absl::StrCat("evaluation ", id, " is not open")};
  }
  if (contribution >= contributions) {
    return {REFUSED_REQUEST, absl::StrCat("contribution ", contribution, " of ", contributions)};
  }
  uint64_t& word = seen[contribution / kWordBits];
  const uint64_t bit = uint64_t{1} << (contribution % kWordBits);
  if ((word & bit) != 0) {
    return {DUPLICATE, ""};
  }
  if (probe) {
    RaiseMaxima(values, maxima);
  } else if (!AddFixedPoint(values, exponents, ValueBits(contributions), maxima, sum)) {
    overflow = true;
  }
  word |= bit;
  ++count;
  return {};
}

bool ContributionSum::Part::TooCoarse() const {
  const int bits = ValueBits(contributions);
  for (size_t line = 0; line < lines; ++line) {
    // A sum of zeros is exact.
    if (maxima[line] > 0.0f &&
        QuantumExponent(maxima[line], bits) < exponents[line] - ContributionSum::kMostFall) {
      return true;
    }
  }
  return false;
}

void ContributionSum::Part::KeepMaxima() {
  for (size_t line = 0; line < lines; ++line) {
    noted[line] = maxima[line] > 0.0f ? maxima[line] : noted[line];
  }
}

uint32_t ContributionSum::Part::FirstMissing() const {
  uint32_t id = 0;
  for (const uint64_t word : seen) {
    const int ones = std::countr_one(word);
    id += static_cast<uint32_t>(ones);
    if (ones < static_cast<int>(kWordBits)) {
      break;
    }
  }
  return id;
}

uint64_t ContributionSum::Part::Bytes() const {
  return seen.capacity() * sizeof(uint64_t) + sum.capacity() * sizeof(int64_t) +
         exponents.capacity() * sizeof(int16_t) +
         (maxima.capacity() + noted.capacity()) * sizeof(float);
}

uint64_t ContributionSum::Part::BytesAfterOpen(uint32_t expected, bool is_probe) const {
  const size_t sums = std::max(sum.capacity(), is_probe ? 0 : floats);
  const size_t quanta = std::max(exponents.capacity(), is_probe ? 0 : lines);
  return std::max(seen.capacity(), Words(expected)) * sizeof(uint64_t) + sums * sizeof(int64_t) +
         quanta * sizeof(int16_t) + 2 * lines * sizeof(float);
}

ContributionSum::ContributionSum(size_t floats, size_t stripe_floats)
    : stripe_floats_(stripe_floats) {
  // The part, its pointer, and the allocator's own bytes for it and five vectors.
  static_assert(sizeof(Part) + sizeof(void*) + 6 * 16 <= kStripeBytes);
  CHECK_EQ(stripe_floats % kLineFloats, 0u);
  for (size_t begin = 0; begin < floats; begin += stripe_floats) {
    parts_.push_back(std::make_unique<Part>(std::min(stripe_floats, floats - begin)));
  }
}

ContributionSum::~ContributionSum() = default;

absl::Status ContributionSum::CheckOpen(uint64_t evaluation, uint32_t contributions) const {
  if (contributions == 0 || contributions > kMostContributions) {
    return absl::InvalidArgumentError(absl::StrCat("evaluation ", evaluation, " of ", contributions,
                                                   " contributions; 1 to ", kMostContributions,
                                                   " are possible"));
  }
  MutexLock lock(&mutex_);
  if (evaluation <= last_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "evaluation ", evaluation, " cannot open: evaluation ", last_, " was opened before"));
  }
  return absl::OkStatus();
}

uint64_t ContributionSum::MemoryAfterOpen(uint32_t contributions, bool probe) const {
  uint64_t bytes = 0;
  for (const auto& part : parts_) {
    MutexLock lock(&part->mutex);
    bytes += part->BytesAfterOpen(contributions, probe);
  }
  return bytes;
}

void ContributionSum::Open(uint64_t evaluation, uint32_t contributions, bool probe) {
  CHECK_OK(CheckOpen(evaluation, contributions));
  MutexLock lock(&mutex_);
  open_ = evaluation;
  last_ = evaluation;
  for (const auto& part : parts_) {
    MutexLock part_lock(&part->mutex);
    part->Open(evaluation, contributions, probe);
  }
}

ContributionSum::Answer ContributionSum::Add(uint64_t evaluation, uint32_t contribution,
                                             uint32_t stripe, std::span<const float> values) {
  CHECK_LT(stripe, parts_.size());
  Part* const part = parts_[stripe].get();
  MutexLock lock(&part->mutex);
  return part->Add(evaluation, contribution, values);
}

absl::StatusOr<ContributionSum::Outcome> ContributionSum::CheckClose(uint64_t evaluation) const {
  MutexLock lock(&mutex_);
  if (evaluation == 0 || evaluation != open_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "evaluation ", evaluation,
        " cannot close: ", open_ == 0 ? "none" : absl::StrCat("evaluation ", open_), " is open"));
  }
  Outcome outcome = Outcome::kSum;
  for (size_t stripe = 0; stripe < parts_.size(); ++stripe) {
    const Part& part = *parts_[stripe];
    MutexLock part_lock(&part.mutex);
    if (part.count < part.contributions) {
      return absl::FailedPreconditionError(
          absl::StrCat("evaluation ", evaluation, " is not complete: contribution ",
                       part.FirstMissing(), " is missing on stripe ", stripe, ", which has ",
                       part.count, " of ", part.contributions));
    }
    if (part.probe) {
      outcome = Outcome::kProbe;
    } else if (part.overflow) {
      outcome = Outcome::kOverflow;
    } else if (outcome == Outcome::kSum && part.TooCoarse()) {
      outcome = Outcome::kTooCoarse;
    }
  }
  return outcome;
}

void ContributionSum::Round(uint32_t stripe, double factor, double shift,
                            std::span<const float> shift_vector, std::span<float> out) const {
  const Part& part = *parts_[stripe];
  MutexLock lock(&part.mutex);
  CHECK_EQ(part.count, part.contributions);
  RoundFixedPoint(part.sum, part.exponents, factor, shift, shift_vector, out);
}

void ContributionSum::Close() {
  MutexLock lock(&mutex_);
  CHECK_NE(open_, 0u);
  open_ = 0;
  for (const auto& part : parts_) {
    MutexLock part_lock(&part->mutex);
    part->evaluation = 0;
    part->KeepMaxima();
  }
}

void ContributionSum::Abandon() {
  MutexLock lock(&mutex_);
  open_ = 0;
  for (const auto& part : parts_) {
    MutexLock part_lock(&part->mutex);
    part->evaluation = 0;
  }
}

std::vector<float> ContributionSum::Maxima(uint32_t stripe) const {
  CHECK_LT(stripe, parts_.size());
  const Part& part = *parts_[stripe];
  MutexLock lock(&part.mutex);
  return part.noted;
}

void ContributionSum::RestoreMaxima(uint32_t stripe, std::span<const float> maxima) {
  CHECK_LT(stripe, parts_.size());
  Part& part = *parts_[stripe];
  MutexLock lock(&part.mutex);
  CHECK_EQ(maxima.size(), part.lines);
  CHECK(part.noted.empty());
  part.noted.assign(maxima.begin(), maxima.end());
}

size_t ContributionSum::lines(uint32_t stripe) const {
  CHECK_LT(stripe, parts_.size());
  return parts_[stripe]->lines;
}

uint64_t ContributionSum::open() const {
  MutexLock lock(&mutex_);
  return open_;
}

uint64_t ContributionSum::memory_bytes() const {
  uint64_t bytes = 0;
  for (const auto& part : parts_) {
    MutexLock lock(&part->mutex);
    bytes += part->Bytes();
  }
  return bytes;
}

}  // namespace monsoon
