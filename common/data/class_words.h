// Labels that are words, or whole numbers, turned into numbers of classes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/data/access/quoting.h"

namespace monsoon {

// The labels of one data set, in the order of its samples.
class ClassWords {
 public:
  // The label of the next sample; `place` ("a.csv:7: column \"kind\"") is kept of the first of
  // each word.
  template <typename Place>
  void Add(absl::string_view word, Place place) {
    const auto [at, is_new] = ids_.try_emplace(word, static_cast<uint32_t>(words_.size()));
    if (is_new) {
      words_.push_back({std::string(word), place()});
    }
    labels_.push_back(at->second);
  }

  struct Numbered {
    std::vector<uint32_t> labels;
    std::vector<std::string> names;  // of the classes; empty: the words were numbers
    uint32_t classes = 0;
  };

  struct Numbering {
    bool take_numbers = true;
    bool only_numbers = false;
    // False: the order of words may be that of earlier builds (CheckSameOrderBefore).
    bool order_is_told = true;
    // Of words in messages.
    Quoting quoting = Quoting::kDescribe;
  };
  // By `names`, if there are any: words that are none of them are refused with their place, but
  // with `take_numbers` whole numbers below names.size() are taken as they are where no name is a
  // number. Otherwise whole numbers stay what they are if all words are, or `only_numbers` says
  // that they must be; else words are numbered in their order (ClassOrder).
  absl::StatusOr<Numbered> Number(std::span<const std::string> names, Numbering numbering) &&;

 private:
  struct Word {
    std::string text;
    std::string place;
  };

  absl::StatusOr<std::vector<uint32_t>> ByNames(std::span<const std::string> names,
                                                Numbering numbering) const;

  absl::flat_hash_map<std::string, uint32_t> ids_;
  std::vector<Word> words_;
  std::vector<uint32_t> labels_;  // numbers of words
};

}  // namespace monsoon
