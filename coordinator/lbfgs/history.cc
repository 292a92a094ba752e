#include "coordinator/lbfgs/history.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace monsoon {
namespace {

// Relative curvature below which y . s is rounding.
constexpr double kCurvature = 1e-8;

}  // namespace

History::History(size_t capacity) : capacity_(capacity) { CHECK_GE(capacity, 1u); }

std::vector<std::string> History::Basis() const {
  std::vector<std::string> basis;
  for (const Pair& pair : pairs_) {
    basis.push_back(pair.s.name());
  }
  for (const Pair& pair : pairs_) {
    basis.push_back(pair.y.name());
  }
  return basis;
}

bool History::Add(OwnedVector s, OwnedVector y, const std::vector<double>& dots) {
  const size_t k = pairs_.size();
  const size_t columns = 2 * k + 2;
  CHECK_EQ(dots.size(), 2 * columns);
  const double* y_row = dots.data();
  const double* g_row = dots.data() + columns;
  for (size_t i = 0; i < k; ++i) {
    pairs_[i].s_dot_g = g_row[i];
    pairs_[i].y_dot_g = g_row[k + i];
  }
  Pair pair;
  pair.y_dot_s.assign(y_row, y_row + k);
  pair.y_dot_s.push_back(y_row[2 * k]);
  pair.y_dot_y.assign(y_row + k, y_row + 2 * k);
  pair.y_dot_y.push_back(y_row[2 * k + 1]);
  pair.s_dot_g = g_row[2 * k];
  pair.y_dot_g = g_row[2 * k + 1];
  const double s_dot_old_g = pair.s_dot_g - pair.ys();
  const bool curved = pair.ys() > kCurvature * std::abs(s_dot_old_g) && pair.ys() > 0.0;
  if (!curved || !std::isfinite(pair.ys()) || !std::isfinite(pair.y_dot_y.back())) {
    return false;
  }
  pair.s = std::move(s);
  pair.y = std::move(y);
  pairs_.push_back(std::move(pair));
  if (pairs_.size() > capacity_) {
    DropOldest();
  }
  return true;
}

void History::DropOldest() {
  pairs_.pop_front();
  for (Pair& pair : pairs_) {
    pair.y_dot_s.erase(pair.y_dot_s.begin());
    pair.y_dot_y.erase(pair.y_dot_y.begin());
  }
}

std::vector<Term> History::Direction(const std::string& g) const {
  const size_t k = pairs_.size();
  if (k == 0) {
    return {{-1.0, g}};
  }
  // First loop: q = g - sum of alpha_j y_j.
  std::vector<double> alpha(k);
  for (size_t i = k; i-- > 0;) {
    double s_dot_q = pairs_[i].s_dot_g;
    for (size_t j = i + 1; j < k; ++j) {
      s_dot_q -= alpha[j] * pairs_[j].y_dot_s[i];
    }
    alpha[i] = s_dot_q / pairs_[i].ys();
  }
  // H_0 = gamma * identity.
  const double gamma = pairs_[k - 1].ys() / YY(k - 1, k - 1);
  // Second loop: r = gamma q + sum of (alpha_j - beta_j) s_j.
  std::vector<double> beta(k);
  for (size_t i = 0; i < k; ++i) {
    double y_dot_q = pairs_[i].y_dot_g;
    for (size_t j = 0; j < k; ++j) {
      y_dot_q -= alpha[j] * YY(i, j);
    }
    double y_dot_r = gamma * y_dot_q;
    for (size_t j = 0; j < i; ++j) {
      y_dot_r += (alpha[j] - beta[j]) * pairs_[i].y_dot_s[j];
    }
    beta[i] = y_dot_r / pairs_[i].ys();
  }
  std::vector<Term> terms;
  for (size_t i = 0; i < k; ++i) {
    terms.push_back({beta[i] - alpha[i], pairs_[i].s.name()});
  }
  for (size_t i = 0; i < k; ++i) {
    terms.push_back({gamma * alpha[i], pairs_[i].y.name()});
  }
  terms.push_back({-gamma, g});
  return terms;
}

void History::Clear() { pairs_.clear(); }

void History::Save(MinimizerState* state) const {
  for (const Pair& pair : pairs_) {
    CurvaturePair* const saved = state->add_pair();
    saved->set_s(pair.s.name());
    saved->set_y(pair.y.name());
    saved->mutable_y_dot_s()->Add(pair.y_dot_s.begin(), pair.y_dot_s.end());
    saved->mutable_y_dot_y()->Add(pair.y_dot_y.begin(), pair.y_dot_y.end());
    saved->set_s_dot_g(pair.s_dot_g);
    saved->set_y_dot_g(pair.y_dot_g);
  }
}

absl::Status History::Restore(const MinimizerState& state, VectorSpace* space) {
  CHECK(empty());
  if (static_cast<size_t>(state.pair_size()) > capacity_) {
    return absl::InvalidArgumentError(
        absl::StrCat("a history of ", state.pair_size(), " pairs, where ", capacity_, " are kept"));
  }
  for (const CurvaturePair& saved : state.pair()) {
    const auto products = static_cast<int>(pairs_.size()) + 1;
    if (saved.y_dot_s_size() != products || saved.y_dot_y_size() != products) {
      return absl::InvalidArgumentError(absl::StrCat("pair ", products, " of a history has ",
                                                     saved.y_dot_s_size(), " and ",
                                                     saved.y_dot_y_size(), " products"));
    }
    Pair pair;
    pair.s = OwnedVector(space, saved.s());
    pair.y = OwnedVector(space, saved.y());
    pair.y_dot_s.assign(saved.y_dot_s().begin(), saved.y_dot_s().end());
    pair.y_dot_y.assign(saved.y_dot_y().begin(), saved.y_dot_y().end());
    pair.s_dot_g = saved.s_dot_g();
    pair.y_dot_g = saved.y_dot_g();
    pairs_.push_back(std::move(pair));
  }
  return absl::OkStatus();
}

}  // namespace monsoon
