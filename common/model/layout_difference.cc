#include "common/model/layout_difference.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace monsoon {
namespace {

struct Part {
  std::string name;
  std::string shape;
};

std::vector<Part> TensorsOf(const ParameterLayout& layout) {
  std::vector<Part> parts;
  for (const TensorInfo& tensor : layout.tensors()) {
    parts.push_back({tensor.name, absl::StrCat("(", absl::StrJoin(tensor.shape, ", "), ")")});
  }
  return parts;
}

std::vector<Part> TablesOf(const ParameterLayout& layout) {
  std::vector<Part> parts;
  for (const TableInfo& table : layout.tables()) {
    parts.push_back({absl::StrCat("table ", table.name),
                     absl::StrCat("(", table.rows, ", ", table.columns, ")")});
  }
  return parts;
}

std::string Lonely(const Part& part, const std::string& in, const std::string& not_in) {
  return absl::StrCat(part.name, " ", part.shape, " is in ", in, ", but not in ", not_in);
}

std::string FirstDifference(const std::vector<Part>& a, const std::string& a_name,
                            const std::vector<Part>& b, const std::string& b_name) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].name != b[i].name) {
      return absl::StrCat("where ", a_name, " has ", a[i].name, " ", a[i].shape, ", ", b_name,
                          " has ", b[i].name, " ", b[i].shape);
    }
    if (a[i].shape != b[i].shape) {
      return absl::StrCat(a[i].name, " is ", a[i].shape, " in ", a_name, ", but ", b[i].shape,
                          " in ", b_name);
    }
  }
  return a.size() > b.size()   ? Lonely(a[b.size()], a_name, b_name)
         : a.size() < b.size() ? Lonely(b[a.size()], b_name, a_name)
                               : "";
}

}  // namespace

std::string FirstTensorDifference(const ParameterLayout& a, const std::string& a_name,
                                  const ParameterLayout& b, const std::string& b_name) {
  const std::string tensors = FirstDifference(TensorsOf(a), a_name, TensorsOf(b), b_name);
  return tensors.empty() ? FirstDifference(TablesOf(a), a_name, TablesOf(b), b_name) : tensors;
}

}  // namespace monsoon
