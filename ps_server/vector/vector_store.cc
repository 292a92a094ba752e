#include "ps_server/vector/vector_store.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "ps_server/vector/slice_parts.h"
#include "ps_server/vector/split_work.h"
#include "ps_server/vector/vector_kernels.h"

namespace monsoon {
namespace {

template <typename Vector>
auto Part(Vector* vector, const Slice& range) {
  return std::span(vector->data() + range.begin, range.size());
}

std::vector<const float*> PartsOf(const std::vector<std::shared_ptr<const SliceVector>>& vectors,
                                  const Slice& range) {
  std::vector<const float*> parts;
  for (const auto& vector : vectors) {
    parts.push_back(vector->data() + range.begin);
  }
  return parts;
}

absl::Status CheckNumbers(std::initializer_list<double> numbers) {
  for (const double number : numbers) {
    if (!(std::abs(number) <= std::numeric_limits<double>::max())) {
      return absl::InvalidArgumentError(
          absl::StrCat("an operation with the number ", number, ", which is not finite"));
    }
  }
  return absl::OkStatus();
}

// Of numbers that become elements.
absl::Status CheckElements(std::initializer_list<double> numbers) {
  for (const double number : numbers) {
    if (!(std::abs(number) <= static_cast<double>(std::numeric_limits<float>::max()))) {
      return absl::InvalidArgumentError(
          absl::StrCat("an operation with the element ", number, ", which is no finite float32"));
    }
  }
  return absl::OkStatus();
}

// Of those that may come before another operation.
bool AnswersNothing(const VectorRequest& request) {
  switch (request.op_case()) {
    case VectorRequest::kDot:
    case VectorRequest::kCombine:
    case VectorRequest::kGram:
    case VectorRequest::kCloseEvaluation:
      return false;
    default:
      return request.before().empty();
  }
}

// Of the operation's reply.
uint64_t ScalarsOf(const VectorRequest& request) {
  switch (request.op_case()) {
    case VectorRequest::kDot:
      return 1;
    case VectorRequest::kCombine:
      return static_cast<uint64_t>(request.combine().dot_with_size());
    case VectorRequest::kGram:
      return static_cast<uint64_t>(request.gram().row_size()) *
             static_cast<uint64_t>(request.gram().column_size());
    case VectorRequest::kCloseEvaluation:
      return static_cast<uint64_t>(request.close_evaluation().gram().row_size()) *
             static_cast<uint64_t>(request.close_evaluation().gram().column_size());
    default:
      return 0;
  }
}

// Of an operation that answers `dots` products and passes over the slice so often.
absl::Status CheckWork(uint64_t dots, uint64_t passes) {
  if (dots <= VectorStore::kMaxScalars && passes <= VectorStore::kMaxPasses) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(dots, " dot products at once, the limit is ", VectorStore::kMaxScalars, "; in ",
                   passes, " passes, the limit is ", VectorStore::kMaxPasses));
}

// Scalars of stripes that are held at once: 4 MiB, of more stripes than threads
// have to share out.
constexpr uint64_t kHeldScalars = uint64_t{4} << 20 >> 3;
constexpr uint64_t kLeastStripesHeld = 64;

}  // namespace

VectorStore::VectorStore(SliceShape shape, SliceParameters* parameters, MemoryBudget* budget)
    : shape_(std::move(shape)),
      stripes_(
          static_cast<uint32_t>((shape_.floats + shape_.stripe_floats - 1) / shape_.stripe_floats)),
      statistics_(Shifted(shape_.statistics, shape_.begin)),
      parameters_(parameters),
      budget_(budget),
      vectors_(shape_.job, shape_.floats, budget),
      sum_(shape_.floats, shape_.stripe_floats) {}

absl::StatusOr<VectorReply> VectorStore::Execute(const VectorRequest& request) {
  if (request.ByteSizeLong() > kMaxRequestBytes) {
    return absl::InvalidArgumentError(absl::StrCat("an operation of ", request.ByteSizeLong(),
                                                   " bytes; the limit is ", kMaxRequestBytes));
  }
  if (request.before_size() > kMaxBefore) {
    return absl::InvalidArgumentError(absl::StrCat("an operation after ", request.before_size(),
                                                   " others; the limit is ", kMaxBefore));
  }
  MutexLock lock(&mutex_);
  for (const VectorRequest& first : request.before()) {
    if (!AnswersNothing(first)) {
      return absl::InvalidArgumentError(
          "an operation before another one answers something, or has others before it");
    }
    RETURN_IF_ERROR(ExecuteOne(first).status());
  }
  if (request.before().empty()) {
    return ExecuteOne(request);
  }
  VectorRequest last = request;
  last.clear_before();
  return ExecuteOne(last);
}

absl::StatusOr<VectorReply> VectorStore::ExecuteOne(const VectorRequest& request) {
  absl::StatusOr<const VectorReply*> done = log_.Find(request);
  if (!done.ok()) {
    return Annotate(done.status(), absl::StrCat("job ", shape_.job));
  }
  if (*done != nullptr) {
    return **done;
  }
  if (request.has_only_free()) {
    Free(request.free());  // first: there may be no room to remember it
  }
  ASSIGN_OR_RETURN(MemoryBudget::Reservation kept,
                   budget_->Reserve(OperationLog::BytesFor(request, ScalarsOf(request)),
                                    absl::StrCat("job ", shape_.job), "the record of operations"));
  absl::StatusOr<VectorReply> reply = Dispatch(request);
  if (!reply.ok()) {
    return Annotate(reply.status(),
                    absl::StrCat("job ", shape_.job, ", operation ", request.op_id()));
  }
  Free(request.free());
  reply->set_memory_bytes(memory_bytes());
  log_.Record(request, *reply, std::move(kept));
  return reply;
}

void VectorStore::Free(const google::protobuf::RepeatedPtrField<std::string>& names) {
  for (const std::string& name : names) {
    vectors_.Free(name);
  }
}

absl::StatusOr<VectorReply> VectorStore::Dispatch(const VectorRequest& request) {
  absl::Status status;
  switch (request.op_case()) {
    case VectorRequest::kFill:
      status = Fill(request.fill());
      break;
    case VectorRequest::kUniform:
      status = Uniform(request.uniform());
      break;
    case VectorRequest::kCopy:
      status = Copy(request.copy());
      break;
    case VectorRequest::kScale:
      status = Scale(request.scale());
      break;
    case VectorRequest::kAxpy:
      status = Axpy(request.axpy());
      break;
    case VectorRequest::kMultiply:
      status = Multiply(request.multiply());
      break;
    case VectorRequest::kSelect:
      status = Select(request.select());
      break;
    case VectorRequest::kDot:
      return Dot(request.dot());
    case VectorRequest::kCombine:
      return Combine(request.combine());
    case VectorRequest::kGram:
      return Gram(request.gram());
    case VectorRequest::kPublish:
      status = Publish(request.publish());
      break;
    case VectorRequest::kOpenEvaluation:
      status = OpenSum(request.open_evaluation());
      break;
    case VectorRequest::kCloseEvaluation:
      return CloseSum(request.close_evaluation());
    case VectorRequest::kOnlyFree:
      break;
    case VectorRequest::OP_NOT_SET:
      status = absl::InvalidArgumentError("the request has no operation that this shard knows");
      break;
  }
  RETURN_IF_ERROR(status);
  return VectorReply();
}

template <typename Work>
void VectorStore::ForStripes(uint32_t first, uint32_t end, Work work) const {
  SplitWork(end - first, [&](uint32_t i) {
    const uint32_t stripe = first + i;
    const uint64_t begin = stripe * shape_.stripe_floats;
    work(stripe, Slice{begin, std::min(begin + shape_.stripe_floats, shape_.floats)});
  });
}

template <typename Make>
absl::Status VectorStore::MakeVector(const std::string& out, Make make) {
  ASSIGN_OR_RETURN(std::unique_ptr<SliceVector> vector, vectors_.Allocate(out));
  ForEachStripe(
      [&](uint32_t stripe, const Slice& range) { make(stripe, range, Part(vector.get(), range)); });
  Zero(shape_.padding, vector.get());
  vectors_.Store(out, std::move(vector));
  return absl::OkStatus();
}

void VectorStore::Zero(const std::vector<Slice>& parts, SliceVector* vector) const {
  for (const Slice& part : parts) {
    std::fill_n(vector->data() + (part.begin - shape_.begin), part.size(), 0.0f);
  }
}

template <typename Work>
absl::StatusOr<VectorReply> VectorStore::SumScalars(size_t count, Work work) const {
  const auto held = static_cast<uint32_t>(std::min<uint64_t>(
      stripes_, std::max(kLeastStripesHeld, kHeldScalars / std::max<size_t>(1, count))));
  ASSIGN_OR_RETURN(const MemoryBudget::Reservation memory,
                   budget_->Reserve(held * count * sizeof(double), absl::StrCat("job ", shape_.job),
                                    "the scalars of stripes"));
  std::vector<double> partial(held * count);
  std::vector<double> sums(count, 0.0);
  for (uint32_t first = 0; first < stripes_; first += held) {
    const uint32_t end = std::min(first + held, stripes_);
    ForStripes(first, end, [&](uint32_t stripe, const Slice& range) {
      const std::span<double> sum = std::span(partial).subspan((stripe - first) * count, count);
      const std::vector<Slice> parts = PartsOutside(range, statistics_);
      if (parts.size() == 1) {
        work(stripe, parts.front(), sum);
        return;
      }
      std::ranges::fill(sum, 0.0);
      std::vector<double> of_part(count);
      for (const Slice& part : parts) {
        work(stripe, part, of_part);
        std::ranges::transform(sum, of_part, sum.begin(), std::plus<>());
      }
    });
    for (uint32_t stripe = first; stripe < end; ++stripe) {
      for (size_t k = 0; k < count; ++k) {
        sums[k] += partial[(stripe - first) * count + k];
      }
    }
  }
  VectorReply reply;
  reply.mutable_scalar()->Add(sums.begin(), sums.end());
  return reply;
}

absl::StatusOr<std::vector<VectorStore::Input>> VectorStore::FindAll(
    const google::protobuf::RepeatedPtrField<std::string>& names) const {
  std::vector<Input> inputs;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(inputs.emplace_back(), Find(name));
  }
  return inputs;
}

absl::Status VectorStore::Fill(const VectorFill& op) {
  RETURN_IF_ERROR(CheckElements({op.value()}));
  ASSIGN_OR_RETURN(std::unique_ptr<SliceVector> vector, vectors_.Allocate(op.out()));
  std::fill_n(vector->data(), vector->size(), static_cast<float>(op.value()));
  Zero(shape_.padding, vector.get());
  if (op.weights_only()) {
    Zero(shape_.biases, vector.get());
  }
  vectors_.Store(op.out(), std::move(vector));
  return absl::OkStatus();
}

absl::Status VectorStore::Uniform(const VectorUniform& op) {
  RETURN_IF_ERROR(CheckElements({op.low(), op.high()}));
  if (!(op.low() < op.high())) {
    return absl::InvalidArgumentError(
        absl::StrCat("no value is uniform in [", op.low(), ", ", op.high(), ")"));
  }
  const PhiloxStream stream(op.seed(), StreamKind::kSynthetic, op.stream());
  const double width = op.high() - op.low();
  const float largest = LargestBelow(op.high());  // rounding must not reach `high`
  return MakeVector(op.out(), [&](uint32_t, const Slice& range, std::span<float> out) {
    for (size_t i = 0; i < out.size(); ++i) {
      const double u = stream.Uniform(shape_.begin + range.begin + i);
      out[i] = std::min(static_cast<float>(op.low() + width * u), largest);
    }
  });
}

absl::Status VectorStore::Copy(const VectorCopy& op) {
  if (op.in().empty()) {
    return MakeVector(op.out(), [this](uint32_t stripe, const Slice&, std::span<float> out) {
      parameters_->TakeStripe(stripe, out);
    });
  }
  ASSIGN_OR_RETURN(const Input in, Find(op.in()));
  return MakeVector(op.out(), [&](uint32_t, const Slice& range, std::span<float> out) {
    std::memcpy(out.data(), in->data() + range.begin, out.size_bytes());
  });
}

absl::Status VectorStore::Scale(const VectorScale& op) {
  RETURN_IF_ERROR(CheckNumbers({op.factor()}));
  ASSIGN_OR_RETURN(const Input in, Find(op.in()));
  return MakeVector(op.out(), [&](uint32_t, const Slice& range, std::span<float> out) {
    ScaleVector(op.factor(), Part(in.get(), range), out);
  });
}

absl::Status VectorStore::Axpy(const VectorAxpy& op) {
  RETURN_IF_ERROR(CheckNumbers({op.factor()}));
  ASSIGN_OR_RETURN(const Input x, Find(op.x()));
  ASSIGN_OR_RETURN(const Input y, Find(op.y()));
  return MakeVector(op.out(), [&](uint32_t, const Slice& range, std::span<float> out) {
    AxpyVector(op.factor(), Part(x.get(), range), Part(y.get(), range), out);
  });
}

absl::Status VectorStore::Multiply(const VectorMultiply& op) {
  ASSIGN_OR_RETURN(const Input x, Find(op.x()));
  ASSIGN_OR_RETURN(const Input y, Find(op.y()));
  return MakeVector(op.out(), [&](uint32_t, const Slice& range, std::span<float> out) {
    MultiplyVectors(Part(x.get(), range), Part(y.get(), range), out);
  });
}

absl::Status VectorStore::Select(const VectorSelect& op) {
  if (op.begin() > op.end() || !(op.low() >= 0.0 && op.low() <= op.high())) {
    return absl::InvalidArgumentError(absl::StrCat("nothing is selected by ", op.DebugString()));
  }
  ASSIGN_OR_RETURN(const Input in, Find(op.in()));
  ASSIGN_OR_RETURN(const Input by, Find(op.by()));
  return MakeVector(op.out(), [&](uint32_t, const Slice& range, std::span<float> out) {
    const uint64_t first = shape_.begin + range.begin;
    const uint64_t begin = std::clamp(op.begin(), first, first + out.size()) - first;
    const uint64_t size = std::clamp(op.end(), first + begin, first + out.size()) - first - begin;
    std::ranges::fill(out, 0.0f);
    SelectVector(Part(in.get(), range).subspan(begin, size),
                 Part(by.get(), range).subspan(begin, size), op.low(), op.high(),
                 out.subspan(begin, size));
  });
}

absl::StatusOr<VectorReply> VectorStore::Dot(const VectorDot& op) const {
  ASSIGN_OR_RETURN(const Input x, Find(op.x()));
  ASSIGN_OR_RETURN(const Input y, Find(op.y()));
  return SumScalars(1, [&](uint32_t, const Slice& range, std::span<double> out) {
    out[0] = DotVectors(Part(x.get(), range), Part(y.get(), range));
  });
}

absl::StatusOr<VectorReply> VectorStore::Combine(const VectorCombine& op) {
  if (op.factor_size() != op.in_size() || op.in_size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat("a combination of ", op.in_size(),
                                                   " vectors with ", op.factor_size(), " factors"));
  }
  for (const double factor : op.factor()) {
    RETURN_IF_ERROR(CheckNumbers({factor}));
  }
  const auto dots = static_cast<uint64_t>(op.dot_with_size());
  RETURN_IF_ERROR(CheckWork(dots, dots + static_cast<uint64_t>(op.in_size())));
  ASSIGN_OR_RETURN(const std::vector<Input> in, FindAll(op.in()));
  ASSIGN_OR_RETURN(const std::vector<Input> dot_with, FindAll(op.dot_with()));
  const std::vector<double> factors(op.factor().begin(), op.factor().end());
  ASSIGN_OR_RETURN(std::unique_ptr<SliceVector> out, vectors_.Allocate(op.out()));
  ASSIGN_OR_RETURN(VectorReply reply, SumScalars(dot_with.size(), [&](uint32_t, const Slice& range,
                                                                      std::span<double> dots) {
                     CombineVectors(factors, PartsOf(in, range), PartsOf(dot_with, range),
                                    Part(out.get(), range), dots);
                   }));
  for (const Slice& range : statistics_) {
    CombineVectors(factors, PartsOf(in, range), {}, Part(out.get(), range), {});
  }
  Zero(shape_.padding, out.get());
  vectors_.Store(op.out(), std::move(out));
  return reply;
}

absl::StatusOr<VectorReply> VectorStore::Gram(const VectorGram& op) const {
  const uint64_t count = uint64_t(op.row_size()) * uint64_t(op.column_size());
  RETURN_IF_ERROR(CheckWork(count, count));
  ASSIGN_OR_RETURN(const std::vector<Input> rows, FindAll(op.row()));
  ASSIGN_OR_RETURN(const std::vector<Input> columns, FindAll(op.column()));
  return SumScalars(count, [&](uint32_t, const Slice& range, std::span<double> dots) {
    GramVectors(PartsOf(rows, range), PartsOf(columns, range), range.size(), dots);
  });
}

absl::Status VectorStore::Publish(const VectorPublish& op) {
  ASSIGN_OR_RETURN(const Input in, Find(op.in()));
  ForEachStripe([&](uint32_t stripe, const Slice& range) {
    parameters_->WriteStripe(stripe, Part(in.get(), range));
  });
  return absl::OkStatus();
}

absl::Status VectorStore::RestoreMaxima(uint32_t stripe, std::span<const float> maxima) {
  if (maxima.empty()) {
    return absl::OkStatus();
  }
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(MemoryBudget::Reservation memory,
                   budget_->Reserve(maxima.size() * sizeof(float), absl::StrCat("job ", shape_.job),
                                    "the largest values of gradients"));
  sum_memory_.Add(std::move(memory));
  sum_.RestoreMaxima(stripe, maxima);
  return absl::OkStatus();
}

absl::Status VectorStore::RestoreVector(const std::string& name,
                                        absl::FunctionRef<absl::Status(std::span<float>)> fill) {
  ASSIGN_OR_RETURN(std::unique_ptr<SliceVector> vector, vectors_.Allocate(name));
  RETURN_IF_ERROR(fill(std::span(vector->data(), vector->size())));
  vectors_.Store(name, std::move(vector));
  return absl::OkStatus();
}

absl::Status VectorStore::OpenSum(const OpenEvaluation& op) {
  RETURN_IF_ERROR(sum_.CheckOpen(op.evaluation(), op.contributions()));
  const uint64_t bytes = sum_.MemoryAfterOpen(op.contributions(), op.probe());
  if (bytes > sum_memory_.bytes()) {
    ASSIGN_OR_RETURN(MemoryBudget::Reservation more,
                     budget_->Reserve(bytes - sum_memory_.bytes(), absl::StrCat("job ", shape_.job),
                                      "the sum of gradients"));
    sum_memory_.Add(std::move(more));
  }
  sum_.Open(op.evaluation(), op.contributions(), op.probe());
  return absl::OkStatus();
}

absl::StatusOr<VectorReply> VectorStore::CloseSum(const CloseEvaluation& op) {
  VectorReply reply;
  if (op.abandon()) {
    // An evaluation that is not open is gone already.
    if (op.evaluation() == sum_.open()) {
      sum_.Abandon();
    }
    return reply;
  }
  RETURN_IF_ERROR(CheckNumbers({op.factor(), op.shift()}));
  ASSIGN_OR_RETURN(const ContributionSum::Outcome outcome, sum_.CheckClose(op.evaluation()));
  if (outcome == ContributionSum::Outcome::kSum) {
    Input shift;
    if (!op.shift_vector().empty()) {
      ASSIGN_OR_RETURN(shift, Find(op.shift_vector()));
    } else if (op.shift() != 0.0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a shift of ", op.shift(), " without a vector"));
    }
    RETURN_IF_ERROR(
        MakeVector(op.out(), [&](uint32_t stripe, const Slice& range, std::span<float> out) {
          sum_.Round(stripe, op.factor(), op.shift(),
                     shift == nullptr ? std::span<const float>() : Part(shift.get(), range), out);
          ClearInside(range, statistics_, out);
        }));
    if (op.has_gram()) {
      ASSIGN_OR_RETURN(reply, GramOfSum(op));
    }
  }
  sum_.Close();
  reply.set_evaluate_again(outcome == ContributionSum::Outcome::kOverflow ||
                           outcome == ContributionSum::Outcome::kTooCoarse);
  return reply;
}

absl::StatusOr<VectorReply> VectorStore::GramOfSum(const CloseEvaluation& op) {
  absl::StatusOr<VectorReply> reply = Gram(op.gram());
  if (!reply.ok()) {
    vectors_.Free(op.out());
  }
  return reply;
}

}  // namespace monsoon
