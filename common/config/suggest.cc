#include "common/config/suggest.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace monsoon {
namespace {

// Longer names are never a slip of the keyboard; bounds the work on hostile input.
constexpr size_t kMaxNameBytes = 64;
constexpr size_t kMinPartBytes = 3;
// In shorter names one wrong letter is another word: GPU is not CPU.
constexpr size_t kMinSubstitutionBytes = 4;

bool IsPartOf(const std::string& part, const std::string& whole) {
  if (part.size() < kMinPartBytes) {
    return false;
  }
  const std::vector<std::string> words = absl::StrSplit(whole, '_');
  return absl::StartsWith(whole, part) ||
         std::find(words.begin(), words.end(), part) != words.end();
}

}  // namespace

int EditDistance(const std::string& a, const std::string& b) {
  const size_t columns = b.size() + 1;
  std::vector<int> before(columns), previous(columns), current(columns);
  for (size_t j = 0; j < columns; ++j) {
    previous[j] = static_cast<int>(j);
  }
  const auto lower = [](const std::string& s, size_t i) { return absl::ascii_tolower(s[i]); };
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool equal = lower(a, i - 1) == lower(b, j - 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + !equal});
      if (i > 1 && j > 1 && lower(a, i - 1) == lower(b, j - 2) &&
          lower(a, i - 2) == lower(b, j - 1)) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

std::string NearestName(const std::string& name, const std::vector<std::string>& candidates) {
  if (name.empty() || name.size() > kMaxNameBytes) {
    return "";
  }
  std::string best;
  int best_distance = std::max(1, static_cast<int>(name.size()) / 3) + 1;
  for (const std::string& candidate : candidates) {
    const int distance = EditDistance(name, candidate);
    const bool substituted =
        distance > 0 && name.size() == candidate.size() && name.size() < kMinSubstitutionBytes;
    if (distance < best_distance && distance < static_cast<int>(candidate.size()) && !substituted) {
      best = candidate;
      best_distance = distance;
    }
  }
  if (!best.empty()) {
    return best;
  }
  for (const std::string& candidate : candidates) {
    if (IsPartOf(absl::AsciiStrToLower(name), candidate) ||
        IsPartOf(candidate, absl::AsciiStrToLower(name))) {
      return candidate;
    }
  }
  return "";
}

std::string DidYouMean(const std::string& name, const std::vector<std::string>& candidates) {
  const std::string nearest = NearestName(name, candidates);
  return nearest.empty() ? "" : absl::StrCat("did you mean \"", nearest, "\"?");
}

std::string DidYouMeanFlag(const std::string& name, const std::vector<std::string>& flags) {
  std::vector<std::string> written;
  for (const std::string& flag : flags) {
    written.push_back(absl::StrCat("--", flag));
  }
  return DidYouMean(absl::StrCat("--", name), written);
}

}  // namespace monsoon
