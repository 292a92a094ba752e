// ProgramRows: rows of tables at hand: a fetch until its answer is here, and gradients until the
// next step brings them.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/client/exchange.h"
#include "worker/client/join_message.h"
#include "worker/client/result.h"

namespace monsoon {

class ProgramRows {
 public:
  void SetTables(std::vector<TableShape> tables) { tables_ = std::move(tables); }
  size_t tables() const { return tables_.size(); }

  // The table has those rows, and one message has room for them.
  Result Check(size_t table, const uint64_t* rows, size_t count) const;

  // ---- a fetch ----
  // Of rows that were checked; their values go to `values`.
  void BeginFetch(size_t table, const uint64_t* rows, size_t count, float* values);
  // Until EndFetch.
  bool fetches() const { return fetch_.has_value(); }
  bool fetch_is_done() const { return fetch_->done; }
  void WriteFetch(FieldWriter* fields) const;
  // Its answer. False: it is none.
  bool TakeFetched(const Message& answer);
  void EndFetch() { fetch_.reset(); }

  // ---- gradients ----
  // For the next step.
  Result AddGradient(size_t table, const uint64_t* rows, size_t count, const float* values);
  // Writes what was added, and forgets it.
  void TakeGradients(FieldWriter* fields);
  void ForgetGradients();

 private:
  struct Fetch {
    std::string request;
    float* values = nullptr;
    size_t bytes = 0;
    bool done = false;
  };

  std::vector<TableShape> tables_;
  std::optional<Fetch> fetch_;
  std::string gradients_;  // as the step is to bring them
  uint32_t pieces_ = 0;
};

}  // namespace monsoon
