#include "common/data/class_order.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/data/number_text.h"

namespace monsoon {
namespace {

// With this share of words or more, in percent, none of them is odd.
constexpr size_t kMostOddPercent = 50;

// Nothing: the name is a word. In double, in which whole numbers of 15 digits differ.
std::optional<double> NumberOf(const std::string& name) {
  double value = 0;
  return IsFloat(name) && absl::SimpleAtod(name, &value) ? std::optional(value) : std::nullopt;
}

// As a list of a job file.
std::string ListText(std::span<const std::string> names) {
  constexpr size_t kShown = 20;
  std::string text = "[";
  for (const std::string& name : names.first(std::min(names.size(), kShown))) {
    absl::StrAppend(&text, text.size() > 1 ? ", " : "", Quoted(name));
  }
  return absl::StrCat(text, names.size() > kShown ? ", ...]" : "]");
}

}  // namespace

std::vector<uint32_t> ClassOrder(std::span<const std::string> names) {
  // (a word, its value, its text)
  std::vector<std::tuple<bool, double, const std::string*>> keys;
  keys.reserve(names.size());
  for (const std::string& name : names) {
    const std::optional<double> number = NumberOf(name);
    keys.emplace_back(!number.has_value(), number.value_or(0.0), &name);
  }
  std::vector<uint32_t> order(names.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) {
    const auto& [a_is_word, a_value, a_text] = keys[a];
    const auto& [b_is_word, b_value, b_text] = keys[b];
    return std::tie(a_is_word, a_value, *a_text) < std::tie(b_is_word, b_value, *b_text);
  });
  return order;
}

void SortClassNames(std::vector<std::string>* names) {
  std::vector<std::string> sorted;
  sorted.reserve(names->size());
  for (const uint32_t at : ClassOrder(*names)) {
    sorted.push_back((*names)[at]);
  }
  *names = std::move(sorted);
}

absl::Status CheckSameOrderBefore(std::span<const std::string> names) {
  std::vector<std::string> now(names.begin(), names.end());
  std::vector<std::string> before = now;
  SortClassNames(&now);
  std::ranges::sort(before);
  if (now == before) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "nothing says in which order the job, which an earlier build made, has numbered its classes: "
      "by value ",
      ListText(now), ", or as words ", ListText(before),
      "; list them as its model was trained with them, as in train.class_name: ",
      ListText(before)));
}

std::string OddClassName(std::span<const std::string> names) {
  const auto is_word = [](const std::string& name) { return !IsFloat(name); };
  const auto odd = std::ranges::find_if(names, is_word);
  const auto words = static_cast<size_t>(std::ranges::count_if(names, is_word));
  return odd == names.end() || 100 * words >= kMostOddPercent * names.size() ? "" : *odd;
}

}  // namespace monsoon
