#include "coordinator/lbfgs/objective.h"

#include "absl/strings/str_cat.h"

namespace monsoon {

// Rows g and w, columns g, w and d: w . g and w . d come unasked, and cost nothing.
VectorGram PointProducts(const std::string& w, const std::string& g, const std::string& along) {
  VectorGram gram;
  gram.add_row(g);
  gram.add_row(w);
  gram.add_column(g);
  gram.add_column(w);
  if (!along.empty()) {
    gram.add_column(along);
  }
  return gram;
}

absl::Status ReadPointProducts(const std::vector<double>& scalars, ObjectiveValue* value) {
  if (scalars.size() != 4 && scalars.size() != 6) {
    return absl::InternalError(absl::StrCat("an evaluation answered ", scalars.size(),
                                            " products instead of 4 or 6; the shards run another "
                                            "version"));
  }
  const size_t columns = scalars.size() / 2;
  value->g_dot_g = scalars[0];
  value->w_dot_w = scalars[columns + 1];
  value->g_dot_d = columns == 3 ? scalars[2] : 0.0;
  return absl::OkStatus();
}

absl::Status MeasurePoint(VectorSpace* space, const std::string& w, const std::string& g,
                          const std::string& along, ObjectiveValue* value) {
  const VectorGram gram = PointProducts(w, g, along);
  ASSIGN_OR_RETURN(const std::vector<double> scalars,
                   space->Gram({gram.row().begin(), gram.row().end()},
                               {gram.column().begin(), gram.column().end()}));
  return ReadPointProducts(scalars, value);
}

}  // namespace monsoon
