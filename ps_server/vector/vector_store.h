// VectorStore: one job's vectors and sums on this shard, and the operations of
// VectorRequest (proto/parameter_server.proto) on them. Knows neither gRPC nor
// sessions.
//
// An operation either succeeds, or fails, changes nothing and leaves its id to
// be used again. Padding between tensors stays zero in every vector. Work is
// done stripe by stripe; scalars are summed up in the order of the stripes.
//
// Thread safe. Operations wait for each other; contributions and readers of
// vectors do not wait for operations, but for a pass over one stripe of the sum.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/model/shard_map.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/vector/contribution_sum.h"
#include "ps_server/vector/memory_budget.h"
#include "ps_server/vector/named_vectors.h"
#include "ps_server/vector/operation_log.h"

namespace monsoon {

// What the vectors of a job look like on this shard.
struct SliceShape {
  std::string job;
  uint64_t begin = 0;  // global index of the slice's first float
  uint64_t floats = 0;
  uint64_t stripe_floats = 0;
  std::vector<Slice> padding;  // that lies in the slice, in global indices
  std::vector<Slice> biases;   // likewise
  // Likewise, ascending: constants of the function that is minimised. Vectors have them as the
  // parameters do; its gradient is zero there, l2 or not, and no product counts them.
  std::vector<Slice> statistics;
};

// The job's parameters, stripe by stripe. Thread safe.
class SliceParameters {
 public:
  virtual ~SliceParameters() = default;
  // A minimiser begins with what is copied: no push moves the parameters after it.
  virtual void TakeStripe(uint32_t stripe, std::span<float> out) = 0;
  virtual void WriteStripe(uint32_t stripe, std::span<const float> parameters) = 0;
};

class VectorStore {
 public:
  // Limits of a request, for the bytes kept with its reply.
  static constexpr size_t kMaxRequestBytes = 16384;
  static constexpr uint64_t kMaxScalars = 4096;
  static constexpr int kMaxBefore = 16;
  // Of an operation, each with a pass over the slice, so that others of the job do not wait for
  // minutes. With the longest history (job.proto) a minimiser wants 86 of them.
  static constexpr uint64_t kMaxPasses = 256;

  // `parameters` and `budget` outlive the store.
  VectorStore(SliceShape shape, SliceParameters* parameters, MemoryBudget* budget);

  // Errors name the job and what is wrong: InvalidArgument, NotFound,
  // AlreadyExists, ResourceExhausted and, of ids and evaluations,
  // FailedPrecondition. The request's job and epoch were checked.
  absl::StatusOr<VectorReply> Execute(const VectorRequest& request);

  absl::StatusOr<std::shared_ptr<const SliceVector>> Find(const std::string& name) const {
    return vectors_.Find(name);
  }

  // One stripe of a contribution, checked and finite.
  ContributionSum::Answer Contribute(uint64_t evaluation, uint32_t contribution, uint32_t stripe,
                                     std::span<const float> values) {
    return sum_.Add(evaluation, contribution, stripe, values);
  }

  // ---- what a part of a generation holds beside vectors, and how a new store gets it
  // all; what was done before begins anew with operation 1.

  // As ContributionSum::Maxima. While an evaluation is open: of the one before it.
  std::vector<float> Maxima(uint32_t stripe) const { return sum_.Maxima(stripe); }
  size_t lines(uint32_t stripe) const { return sum_.lines(stripe); }
  // Before the first evaluation; as ContributionSum::RestoreMaxima, and nothing if
  // `maxima` is empty. ResourceExhausted.
  absl::Status RestoreMaxima(uint32_t stripe, std::span<const float> maxima);
  // A vector of the slice's floats, which `fill` writes, all of them, padding zero; its
  // error is the answer, and there is no such vector. Errors of a name and of memory as
  // those of an operation.
  absl::Status RestoreVector(const std::string& name,
                             absl::FunctionRef<absl::Status(std::span<float>)> fill);
  // Takes away what RestoreVector has made.
  void ClearVectors() { vectors_.Clear(); }
  // The same of one, if it is there; who reads it keeps it until the end.
  void DropVector(const std::string& name) { vectors_.Free(name); }

  // Of all vectors that have a name, and of the sums.
  uint64_t memory_bytes() const { return vectors_.memory_bytes() + sum_.memory_bytes(); }

 private:
  using Input = std::shared_ptr<const SliceVector>;

  // One operation, unless it was done before; `request` has nothing in `before`.
  absl::StatusOr<VectorReply> ExecuteOne(const VectorRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<VectorReply> Dispatch(const VectorRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Fill(const VectorFill& op);
  absl::Status Uniform(const VectorUniform& op);
  absl::Status Copy(const VectorCopy& op);
  absl::Status Scale(const VectorScale& op);
  absl::Status Axpy(const VectorAxpy& op);
  absl::Status Multiply(const VectorMultiply& op);
  absl::Status Select(const VectorSelect& op);
  absl::StatusOr<VectorReply> Dot(const VectorDot& op) const;
  absl::StatusOr<VectorReply> Combine(const VectorCombine& op);
  absl::StatusOr<VectorReply> Gram(const VectorGram& op) const;
  absl::Status Publish(const VectorPublish& op);
  absl::Status OpenSum(const OpenEvaluation& op) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<VectorReply> CloseSum(const CloseEvaluation& op);
  // What CloseSum answers once its vector is there; takes that away when it fails.
  absl::StatusOr<VectorReply> GramOfSum(const CloseEvaluation& op);

  // Makes `out`, by a function of each stripe's part of it.
  template <typename Make>
  absl::Status MakeVector(const std::string& out, Make make);
  // Calls `work` with the number and the range (in the slice) of each stripe from
  // `first` up to `end`, of several at once: it writes to its stripe's places only.
  template <typename Work>
  void ForStripes(uint32_t first, uint32_t end, Work work) const;
  template <typename Work>
  void ForEachStripe(Work work) const {
    ForStripes(0, stripes_, work);
  }
  // Calls `work` as ForEachStripe does, but without the statistics, in parts between them, with
  // a place for the part's `count` scalars, and sums these up in the order of the stripes. Needs
  // memory for a part of the stripes at a time.
  template <typename Work>
  absl::StatusOr<VectorReply> SumScalars(size_t count, Work work) const;
  absl::StatusOr<std::vector<Input>> FindAll(
      const google::protobuf::RepeatedPtrField<std::string>& names) const;
  // Global indices.
  void Zero(const std::vector<Slice>& parts, SliceVector* vector) const;
  void Free(const google::protobuf::RepeatedPtrField<std::string>& names);

  const SliceShape shape_;
  const uint32_t stripes_;
  const std::vector<Slice> statistics_;  // in the slice
  SliceParameters* const parameters_;
  MemoryBudget* const budget_;
  NamedVectors vectors_;
  ContributionSum sum_;

  // Held over an operation.
  Mutex mutex_;
  OperationLog log_ ABSL_GUARDED_BY(mutex_);
  MemoryBudget::Reservation sum_memory_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace monsoon
