// What is different between the tensors of two models, for people: parameters of one
// can be those of the other only where nothing is.
#pragma once

#include <string>

#include "common/model/parameter_layout.h"

namespace monsoon {

// The first tensor, in the layouts' order, of which name or shape differ: "conv2/weight
// is (50, 20, 5, 5) in A, but (50, 20, 3, 3) in B"; else the first table, as "table words",
// of which name, rows or columns do. "" where all are the same; the
// models may differ all the same, in layers without parameters and their settings (their
// Hash does). `a_name` and `b_name` stand for A and B.
std::string FirstTensorDifference(const ParameterLayout& a, const std::string& a_name,
                                  const ParameterLayout& b, const std::string& b_name);

}  // namespace monsoon
