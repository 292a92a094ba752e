#include "common/data/class_words.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/shorten.h"
#include "common/base/status.h"
#include "common/data/class_order.h"
#include "common/data/number_text.h"

namespace monsoon {
namespace {

constexpr uint32_t kMaxLabel = std::numeric_limits<uint32_t>::max() - 1;

bool IsLabel(absl::string_view word, uint32_t* label) {
  return ParseWholeNumber(word, label) && *label <= kMaxLabel;
}

// At most a few of `names`.
std::string NamesText(std::span<const std::string> names) {
  constexpr size_t kShown = 8;
  constexpr size_t kMostBytes = 400;
  const std::string text =
      Shorten(absl::StrJoin(names.first(std::min(names.size(), kShown)), ", "), kMostBytes);
  return names.size() > kShown ? absl::StrCat(text, ", ... (", names.size(), " classes)") : text;
}

}  // namespace

absl::StatusOr<ClassWords::Numbered> ClassWords::Number(std::span<const std::string> names,
                                                        Numbering numbering) && {
  Numbered result;
  std::vector<uint32_t> number_of(words_.size());
  if (!names.empty()) {
    ASSIGN_OR_RETURN(number_of, ByNames(names, numbering));
    result.names.assign(names.begin(), names.end());
    result.classes = static_cast<uint32_t>(names.size());
  } else {
    const auto not_a_label = std::find_if(words_.begin(), words_.end(), [](const Word& word) {
      uint32_t label = 0;
      return !IsLabel(word.text, &label);
    });
    if (not_a_label == words_.end()) {
      for (size_t i = 0; i < words_.size(); ++i) {
        IsLabel(words_[i].text, &number_of[i]);
        result.classes = std::max(result.classes, number_of[i] + 1);
      }
    } else if (numbering.only_numbers) {
      return absl::InvalidArgumentError(
          absl::StrCat(not_a_label->place, ": ", Content(not_a_label->text, numbering.quoting),
                       " is no class: the training set's labels are whole numbers"));
    } else {
      std::vector<std::string> texts;
      texts.reserve(words_.size());
      for (const Word& word : words_) {
        texts.push_back(word.text);
      }
      const absl::Status same =
          numbering.order_is_told ? absl::OkStatus() : CheckSameOrderBefore(texts);
      if (!same.ok()) {
        return Annotate(same, not_a_label->place);
      }
      for (const uint32_t at : ClassOrder(texts)) {
        number_of[at] = static_cast<uint32_t>(result.names.size());
        result.names.push_back(std::move(texts[at]));
      }
      result.classes = static_cast<uint32_t>(result.names.size());
    }
  }
  for (uint32_t& label : labels_) {
    label = number_of[label];
  }
  result.labels = std::move(labels_);
  return result;
}

absl::StatusOr<std::vector<uint32_t>> ClassWords::ByNames(std::span<const std::string> names,
                                                          Numbering numbering) const {
  uint32_t number = 0;
  const bool a_name_is_a_number = std::any_of(
      names.begin(), names.end(), [&](const std::string& name) { return IsLabel(name, &number); });
  // There may be as many names as samples.
  absl::flat_hash_map<absl::string_view, uint32_t> number_by_name;
  number_by_name.reserve(names.size());
  for (size_t c = 0; c < names.size(); ++c) {
    number_by_name.try_emplace(names[c], static_cast<uint32_t>(c));
  }
  std::vector<uint32_t> number_of(words_.size());
  for (size_t i = 0; i < words_.size(); ++i) {
    const auto found = number_by_name.find(words_[i].text);
    if (found != number_by_name.end()) {
      number_of[i] = found->second;
    } else if (numbering.take_numbers && !a_name_is_a_number && IsLabel(words_[i].text, &number) &&
               number < names.size()) {
      number_of[i] = number;
    } else {
      return absl::InvalidArgumentError(absl::StrCat(words_[i].place, ": ",
                                                     Content(words_[i].text, numbering.quoting),
                                                     " is none of the classes ", NamesText(names)));
    }
  }
  return number_of;
}

}  // namespace monsoon
