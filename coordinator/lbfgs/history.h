// History: the newest pairs s_k = w_{k+1} - w_k, y_k = g_{k+1} - g_k of L-BFGS
// (Nocedal, Math. Comp. 35, 1980) as names of vectors, with the dot products
// among them. The two-loop recursion for -H g then runs on scalars and answers
// the coefficients of one linear combination (Chen, Wang, Zhou, "Large-scale
// L-BFGS using MapReduce", NIPS 2014).
//
// The recursion needs s_i . y_j only for j >= i, y_i . y_j, and the products with
// g; so a new pair costs 2 (2k + 2) dot products, all in one round: those of the
// rows {y, g} with the columns {Basis(), s, y}.
//
// Not thread safe.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "coordinator/lbfgs/vector_space.h"
#include "proto/minimizer.pb.h"

namespace monsoon {

class History {
 public:
  // Keeps at most `capacity` >= 1 pairs.
  explicit History(size_t capacity);

  size_t size() const { return pairs_.size(); }
  bool empty() const { return pairs_.empty(); }

  // s_1 .. s_k, y_1 .. y_k, oldest first.
  std::vector<std::string> Basis() const;

  // Offers the pair of the last move, and the products of the gradient it ended
  // at: `dots` is the Gram matrix of the rows {y, g} and the columns {Basis(), s,
  // y}, row by row. The pair is refused, and freed, when y . s <= 1e-8 |s . g_old|
  // (the Wolfe conditions promise 1 - c2 instead of 1e-8) or is not finite;
  // returns whether it was taken. A full history frees its oldest pair.
  bool Add(OwnedVector s, OwnedVector y, const std::vector<double>& dots);

  // The terms of -H g; {-1, g} while the history is empty. Of Add's last g only.
  std::vector<Term> Direction(const std::string& g) const;

  // Drops all pairs.
  void Clear();

  // The pairs and their products, and an empty history that becomes one of these, whose
  // vectors `space` has. InvalidArgument for products that are not as many as they must be.
  void Save(MinimizerState* state) const;
  absl::Status Restore(const MinimizerState& state, VectorSpace* space);

 private:
  struct Pair {
    OwnedVector s;
    OwnedVector y;
    // With the s and y of every pair up to this one, oldest first.
    std::vector<double> y_dot_s;
    std::vector<double> y_dot_y;
    // With the newest gradient.
    double s_dot_g = 0.0;
    double y_dot_g = 0.0;
    double ys() const { return y_dot_s.back(); }
  };

  // y_i . y_j in any order.
  double YY(size_t i, size_t j) const {
    return i >= j ? pairs_[i].y_dot_y[j] : pairs_[j].y_dot_y[i];
  }
  void DropOldest();

  size_t capacity_;
  std::deque<Pair> pairs_;
};

}  // namespace monsoon
