// RowSums: gradients of rows of tables (Model.table) that are to leave with one push: those of a
// row in several steps, or named twice, are added up.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ps_server/client/row_gradient.h"

namespace monsoon {

class RowSums {
 public:
  // Rows in any order; as many values for each as the table has columns, the same in each call.
  void Add(uint32_t table, std::span<const uint64_t> rows, std::span<const float> values);
  void Add(const RowSums& other);

  bool empty() const { return tables_.empty(); }
  void Clear() { tables_.clear(); }
  // Rising, valid until the next change.
  std::vector<RowGradient> View() const;

 private:
  struct Table {
    std::vector<uint64_t> rows;  // rising
    std::vector<float> values;
  };
  std::map<uint32_t, Table> tables_;
};

// The rows of the steps that one push takes.
class PushRows {
 public:
  // Of the step under way.
  void Add(const RowSums& rows) { step_.Add(rows); }
  // The step is over, and was dropped or not.
  void EndStep(bool dropped);
  // Of the steps since the last call; null: none.
  std::shared_ptr<const RowSums> Take() { return std::exchange(push_, nullptr); }

 private:
  RowSums step_;
  std::shared_ptr<RowSums> push_;
};

}  // namespace monsoon
