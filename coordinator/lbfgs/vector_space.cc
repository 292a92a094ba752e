#include "coordinator/lbfgs/vector_space.h"

#include <utility>

namespace monsoon {

absl::StatusOr<std::vector<double>> VectorSpace::Run(VectorRequest request, size_t scalars) {
  for (const std::string& name : pending_free_) {
    request.add_free(name);
  }
  ++round_trips_;
  ASSIGN_OR_RETURN(std::vector<double> answer, Execute(std::move(request)));
  // After an error they stay pending: freeing twice does no harm.
  pending_free_.clear();
  if (answer.size() != scalars) {
    return absl::InternalError(absl::StrCat("a vector operation answered ", answer.size(),
                                            " scalars instead of ", scalars,
                                            "; the shards run another version"));
  }
  return answer;
}

absl::Status VectorSpace::RunPlain(VectorRequest request) {
  return Run(std::move(request), 0).status();
}

absl::Status VectorSpace::Copy(const std::string& out, const std::string& in) {
  VectorRequest request;
  request.mutable_copy()->set_out(out);
  request.mutable_copy()->set_in(in);
  return RunPlain(std::move(request));
}

absl::Status VectorSpace::Fill(const std::string& out, double value) {
  VectorRequest request;
  request.mutable_fill()->set_out(out);
  request.mutable_fill()->set_value(value);
  return RunPlain(std::move(request));
}

absl::Status VectorSpace::Uniform(const std::string& out, uint64_t seed, uint32_t stream,
                                  double low, double high) {
  VectorRequest request;
  VectorUniform* uniform = request.mutable_uniform();
  uniform->set_out(out);
  uniform->set_seed(seed);
  uniform->set_stream(stream);
  uniform->set_low(low);
  uniform->set_high(high);
  return RunPlain(std::move(request));
}

absl::Status VectorSpace::Scale(const std::string& out, double factor, const std::string& in) {
  VectorRequest request;
  request.mutable_scale()->set_out(out);
  request.mutable_scale()->set_in(in);
  request.mutable_scale()->set_factor(factor);
  return RunPlain(std::move(request));
}

absl::Status VectorSpace::Axpy(const std::string& out, double factor, const std::string& x,
                               const std::string& y) {
  VectorRequest request;
  VectorAxpy* axpy = request.mutable_axpy();
  axpy->set_out(out);
  axpy->set_factor(factor);
  axpy->set_x(x);
  axpy->set_y(y);
  return RunPlain(std::move(request));
}

absl::Status VectorSpace::Multiply(const std::string& out, const std::string& x,
                                   const std::string& y) {
  VectorRequest request;
  request.mutable_multiply()->set_out(out);
  request.mutable_multiply()->set_x(x);
  request.mutable_multiply()->set_y(y);
  return RunPlain(std::move(request));
}

absl::StatusOr<double> VectorSpace::Dot(const std::string& x, const std::string& y) {
  VectorRequest request;
  request.mutable_dot()->set_x(x);
  request.mutable_dot()->set_y(y);
  ASSIGN_OR_RETURN(const std::vector<double> answer, Run(std::move(request), 1));
  return answer[0];
}

absl::StatusOr<std::vector<double>> VectorSpace::Combine(const std::string& out,
                                                         const std::vector<Term>& terms,
                                                         const std::vector<std::string>& dot_with) {
  VectorRequest request;
  VectorCombine* combine = request.mutable_combine();
  combine->set_out(out);
  for (const Term& term : terms) {
    combine->add_factor(term.factor);
    combine->add_in(term.vector);
  }
  for (const std::string& name : dot_with) {
    combine->add_dot_with(name);
  }
  return Run(std::move(request), dot_with.size());
}

absl::StatusOr<std::vector<double>> VectorSpace::Gram(const std::vector<std::string>& rows,
                                                      const std::vector<std::string>& columns) {
  VectorRequest request;
  for (const std::string& name : rows) {
    request.mutable_gram()->add_row(name);
  }
  for (const std::string& name : columns) {
    request.mutable_gram()->add_column(name);
  }
  return Run(std::move(request), rows.size() * columns.size());
}

absl::Status VectorSpace::Publish(const std::string& in) {
  VectorRequest request;
  request.mutable_publish()->set_in(in);
  return RunPlain(std::move(request));
}

absl::Status VectorSpace::Flush() {
  if (pending_free_.empty()) {
    return absl::OkStatus();
  }
  VectorRequest request;
  request.mutable_only_free();
  return RunPlain(std::move(request));
}

void OwnedVector::Reset() {
  if (space_ != nullptr && !name_.empty()) {
    space_->Free(name_);
  }
  space_ = nullptr;
  name_.clear();
}

std::string OwnedVector::Release() {
  space_ = nullptr;
  return std::exchange(name_, std::string());
}

}  // namespace monsoon
