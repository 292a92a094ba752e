#include "coordinator/lbfgs/vector_space.h"

#include <utility>

namespace monsoon {
namespace {

// What one message may carry beside its last operation (parameter_server.proto).
constexpr size_t kMostKept = 16;

}  // namespace

void VectorSpace::TakePendingFree(VectorRequest* request) {
  for (std::string& name : pending_free_) {
    request->add_free(std::move(name));
  }
  pending_free_.clear();
}

absl::StatusOr<std::vector<double>> VectorSpace::Run(VectorRequest request) {
  for (VectorRequest& kept : std::exchange(kept_, {})) {
    *request.add_before() = std::move(kept);
  }
  TakePendingFree(&request);
  ++round_trips_;
  std::vector<std::string> frees(request.free().begin(), request.free().end());
  for (const VectorRequest& first : request.before()) {
    frees.insert(frees.end(), first.free().begin(), first.free().end());
  }
  absl::StatusOr<std::vector<double>> answer = Execute(std::move(request));
  if (!answer.ok()) {
    // Still to be freed: twice does no harm.
    pending_free_ = std::move(frees);
  }
  return answer;
}

absl::StatusOr<std::vector<double>> VectorSpace::Run(VectorRequest request, size_t scalars) {
  ASSIGN_OR_RETURN(std::vector<double> answer, Run(std::move(request)));
  if (answer.size() != scalars) {
    return absl::InternalError(absl::StrCat("a vector operation answered ", answer.size(),
                                            " scalars instead of ", scalars,
                                            "; the shards run another version"));
  }
  return answer;
}

absl::Status VectorSpace::Keep(VectorRequest request) {
  TakePendingFree(&request);
  kept_.push_back(std::move(request));
  return kept_.size() <= kMostKept ? absl::OkStatus() : Flush();
}

absl::Status VectorSpace::Copy(const std::string& out, const std::string& in) {
  VectorRequest request;
  request.mutable_copy()->set_out(out);
  request.mutable_copy()->set_in(in);
  return Keep(std::move(request));
}

absl::Status VectorSpace::Fill(const std::string& out, double value) {
  VectorRequest request;
  request.mutable_fill()->set_out(out);
  request.mutable_fill()->set_value(value);
  return Keep(std::move(request));
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
  return Keep(std::move(request));
}

absl::Status VectorSpace::Scale(const std::string& out, double factor, const std::string& in) {
  VectorRequest request;
  request.mutable_scale()->set_out(out);
  request.mutable_scale()->set_in(in);
  request.mutable_scale()->set_factor(factor);
  return Keep(std::move(request));
}

absl::Status VectorSpace::Axpy(const std::string& out, double factor, const std::string& x,
                               const std::string& y) {
  VectorRequest request;
  VectorAxpy* axpy = request.mutable_axpy();
  axpy->set_out(out);
  axpy->set_factor(factor);
  axpy->set_x(x);
  axpy->set_y(y);
  return Keep(std::move(request));
}

absl::Status VectorSpace::Multiply(const std::string& out, const std::string& x,
                                   const std::string& y) {
  VectorRequest request;
  request.mutable_multiply()->set_out(out);
  request.mutable_multiply()->set_x(x);
  request.mutable_multiply()->set_y(y);
  return Keep(std::move(request));
}

absl::Status VectorSpace::Select(const std::string& out, const std::string& in,
                                 const Selection& selection, const std::string& by) {
  VectorRequest request;
  VectorSelect* const select = request.mutable_select();
  select->set_out(out);
  select->set_in(in);
  select->set_by(by);
  select->set_begin(selection.begin);
  select->set_end(selection.end);
  select->set_low(selection.low);
  select->set_high(selection.high);
  return Keep(std::move(request));
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
  return Keep(std::move(request));
}

absl::Status VectorSpace::Flush() {
  if (kept_.empty() && pending_free_.empty()) {
    return absl::OkStatus();
  }
  VectorRequest last;
  if (pending_free_.empty()) {
    last = std::move(kept_.back());
    kept_.pop_back();
  } else {
    last.mutable_only_free();
  }
  return Run(std::move(last), 0).status();
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
