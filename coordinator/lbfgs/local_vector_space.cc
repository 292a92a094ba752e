#include "coordinator/lbfgs/local_vector_space.h"

#include <algorithm>
#include <utility>

#include "common/base/random.h"

namespace monsoon {
namespace {

double DotProduct(std::span<const double> x, std::span<const double> y) {
  double sum = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    sum += x[i] * y[i];
  }
  return sum;
}

}  // namespace

absl::Status LocalVectorSpace::Store(const std::string& out, std::vector<double> values) {
  if (out.empty()) {
    return absl::InvalidArgumentError("a vector needs a name");
  }
  if (vectors_.contains(out)) {
    return absl::AlreadyExistsError(
        absl::StrCat("vector \"", out, "\" exists; an operation writes a new name"));
  }
  if (precision_ == Precision::kFloat32) {
    for (double& value : values) {
      value = static_cast<double>(static_cast<float>(value));
    }
  }
  vectors_.emplace(out, std::move(values));
  peak_vectors_ = std::max(peak_vectors_, vectors_.size());
  return absl::OkStatus();
}

absl::Status LocalVectorSpace::Write(const std::string& name, std::span<const double> values) {
  if (values.size() != size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("vector \"", name, "\" needs ", size(), " elements, not ", values.size()));
  }
  return Store(name, std::vector<double>(values.begin(), values.end()));
}

absl::StatusOr<std::span<const double>> LocalVectorSpace::Read(const std::string& name) const {
  const auto found = vectors_.find(name);
  if (found == vectors_.end()) {
    return absl::NotFoundError(absl::StrCat("there is no vector \"", name, "\""));
  }
  return std::span<const double>(found->second);
}

template <typename Element>
absl::Status LocalVectorSpace::Map(const std::string& out, const std::string& x,
                                   const std::string& y, Element element) {
  ASSIGN_OR_RETURN(const std::span<const double> xs, Read(x));
  ASSIGN_OR_RETURN(const std::span<const double> ys, Read(y));
  std::vector<double> values(size());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = element(xs[i], ys[i]);
  }
  return Store(out, std::move(values));
}

absl::Status LocalVectorSpace::DoCopy(const VectorCopy& op) {
  if (op.in().empty()) {
    return Store(op.out(), parameters_);
  }
  return Map(op.out(), op.in(), op.in(), [](double x, double) { return x; });
}

absl::Status LocalVectorSpace::DoSelect(const VectorSelect& op) {
  ASSIGN_OR_RETURN(const std::span<const double> in, Read(op.in()));
  ASSIGN_OR_RETURN(const std::span<const double> by, Read(op.by()));
  std::vector<double> values(size(), 0.0);
  for (size_t i = op.begin(); i < std::min<size_t>(op.end(), size()); ++i) {
    const double magnitude = std::abs(by[i]);
    values[i] = magnitude >= op.low() && magnitude < op.high() ? in[i] : 0.0;
  }
  return Store(op.out(), std::move(values));
}

absl::Status LocalVectorSpace::DoUniform(const VectorUniform& op) {
  if (!(op.low() < op.high())) {
    return absl::InvalidArgumentError(
        absl::StrCat("no value is uniform in [", op.low(), ", ", op.high(), ")"));
  }
  const PhiloxStream stream(op.seed(), StreamKind::kSynthetic, op.stream());
  std::vector<double> values(size());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = op.low() + (op.high() - op.low()) * stream.Uniform(i);
  }
  return Store(op.out(), std::move(values));
}

absl::StatusOr<std::vector<double>> LocalVectorSpace::DoCombine(const VectorCombine& op) {
  if (op.factor_size() != op.in_size() || op.in_size() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("combine has ", op.factor_size(), " factors and ", op.in_size(), " vectors"));
  }
  std::vector<double> values(size(), 0.0);
  for (int k = 0; k < op.in_size(); ++k) {
    ASSIGN_OR_RETURN(const std::span<const double> in, Read(op.in(k)));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] += op.factor(k) * in[i];
    }
  }
  std::vector<std::span<const double>> others;
  for (const std::string& name : op.dot_with()) {
    ASSIGN_OR_RETURN(others.emplace_back(), Read(name));
  }
  RETURN_IF_ERROR(Store(op.out(), std::move(values)));
  std::vector<double> dots;
  for (const std::span<const double> other : others) {
    dots.push_back(DotProduct(vectors_.at(op.out()), other));
  }
  return dots;
}

absl::StatusOr<std::vector<double>> LocalVectorSpace::DoGram(const VectorGram& op) {
  std::vector<double> dots;
  for (const std::string& row : op.row()) {
    ASSIGN_OR_RETURN(const std::span<const double> x, Read(row));
    for (const std::string& column : op.column()) {
      ASSIGN_OR_RETURN(const std::span<const double> y, Read(column));
      dots.push_back(DotProduct(x, y));
    }
  }
  return dots;
}

absl::Status LocalVectorSpace::DoPublish(const VectorPublish& op) {
  ASSIGN_OR_RETURN(const std::span<const double> in, Read(op.in()));
  parameters_.assign(in.begin(), in.end());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> LocalVectorSpace::Dispatch(const VectorRequest& request) {
  absl::Status status;
  switch (request.op_case()) {
    case VectorRequest::kFill:
      status = Store(request.fill().out(), std::vector<double>(size(), request.fill().value()));
      break;
    case VectorRequest::kUniform:
      status = DoUniform(request.uniform());
      break;
    case VectorRequest::kCopy:
      status = DoCopy(request.copy());
      break;
    case VectorRequest::kScale: {
      const VectorScale& op = request.scale();
      status = Map(op.out(), op.in(), op.in(), [&](double x, double) { return op.factor() * x; });
      break;
    }
    case VectorRequest::kAxpy: {
      const VectorAxpy& op = request.axpy();
      status =
          Map(op.out(), op.x(), op.y(), [&](double x, double y) { return op.factor() * x + y; });
      break;
    }
    case VectorRequest::kMultiply: {
      const VectorMultiply& op = request.multiply();
      status = Map(op.out(), op.x(), op.y(), [](double x, double y) { return x * y; });
      break;
    }
    case VectorRequest::kSelect:
      status = DoSelect(request.select());
      break;
    case VectorRequest::kDot: {
      ASSIGN_OR_RETURN(const std::span<const double> x, Read(request.dot().x()));
      ASSIGN_OR_RETURN(const std::span<const double> y, Read(request.dot().y()));
      return std::vector<double>{DotProduct(x, y)};
    }
    case VectorRequest::kCombine:
      return DoCombine(request.combine());
    case VectorRequest::kGram:
      return DoGram(request.gram());
    case VectorRequest::kPublish:
      status = DoPublish(request.publish());
      break;
    case VectorRequest::kOnlyFree:
      break;
    default:
      status = absl::UnimplementedError("local arrays have no such operation");
  }
  if (!status.ok()) {
    return status;
  }
  return std::vector<double>();
}

absl::StatusOr<std::vector<double>> LocalVectorSpace::Execute(VectorRequest request) {
  for (const VectorRequest& first : request.before()) {
    RETURN_IF_ERROR(Dispatch(first).status());
    for (const std::string& name : first.free()) {
      vectors_.erase(name);
    }
  }
  ASSIGN_OR_RETURN(std::vector<double> scalars, Dispatch(request));
  for (const std::string& name : request.free()) {
    vectors_.erase(name);
  }
  return scalars;
}

}  // namespace monsoon
