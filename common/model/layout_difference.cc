#include "common/model/layout_difference.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace monsoon {
namespace {

std::string ShapeOf(const TensorInfo& tensor) {
  return absl::StrCat("(", absl::StrJoin(tensor.shape, ", "), ")");
}

std::string Lonely(const TensorInfo& tensor, const std::string& in, const std::string& not_in) {
  return absl::StrCat(tensor.name, " ", ShapeOf(tensor), " is in ", in, ", but not in ", not_in);
}

}  // namespace

std::string FirstTensorDifference(const ParameterLayout& a, const std::string& a_name,
                                  const ParameterLayout& b, const std::string& b_name) {
  const size_t a_size = a.tensors().size();
  const size_t b_size = b.tensors().size();
  for (size_t i = 0; i < std::min(a_size, b_size); ++i) {
    const TensorInfo& one = a.tensors()[i];
    const TensorInfo& other = b.tensors()[i];
    if (one.name != other.name) {
      return absl::StrCat("where ", a_name, " has ", one.name, " ", ShapeOf(one), ", ", b_name,
                          " has ", other.name, " ", ShapeOf(other));
    }
    if (one.shape != other.shape) {
      return absl::StrCat(one.name, " is ", ShapeOf(one), " in ", a_name, ", but ", ShapeOf(other),
                          " in ", b_name);
    }
  }
  return a_size > b_size   ? Lonely(a.tensors()[b_size], a_name, b_name)
         : a_size < b_size ? Lonely(b.tensors()[a_size], b_name, a_name)
                           : "";
}

}  // namespace monsoon
