// VectorSpace: the vectors of a batch job (parameters, gradients, directions,
// s_k and y_k) under names, and the few operations that a minimiser needs on
// them (Dean et al. 2012, section 4.2). The same driver runs on local arrays and
// on shards; it sees names and scalars only.
//
// Contract of every operation:
//  - it writes a new name and never changes a vector: AlreadyExists for a name in
//    use, NotFound for an input that does not exist, both with the name;
//  - elements are stored with the precision that unit_roundoff() tells; sums of
//    products accumulate in double, in a fixed order;
//  - one that answers scalars is one round trip, and it blocks. So a caller counts
//    rounds, and asks for many dot products at once;
//  - one that answers nothing is kept, and carried out in its turn with the next one
//    that answers, or by Flush: it costs no round trip, and its error comes then. Who
//    looks at vectors by other ways than these operations flushes first;
//  - an error ends the caller's run; Cancelled is how a job is stopped.
//
// All vectors have one length, which this interface does not tell. Not thread
// safe.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/parameter_server.pb.h"

namespace monsoon {

// One term of a linear combination.
struct Term {
  double factor;
  std::string vector;
};

// Floats [begin, end) of the whole vector whose size, as another vector has it, is in [low, high).
struct Selection {
  uint64_t begin = 0;
  uint64_t end = 0;
  double low = 0.0;
  double high = std::numeric_limits<double>::infinity();
};

class VectorSpace {
 public:
  virtual ~VectorSpace() = default;

  // Each is the operation of the same name in proto/parameter_server.proto.
  // `out` becomes a copy of `in`; "" as `in` is the job's parameters.
  absl::Status Copy(const std::string& out, const std::string& in);
  absl::Status Fill(const std::string& out, double value);
  // out_i uniform in [low, high), a function of (seed, stream, i).
  absl::Status Uniform(const std::string& out, uint64_t seed, uint32_t stream, double low,
                       double high);
  absl::Status Scale(const std::string& out, double factor, const std::string& in);
  // out = factor * x + y, rounded once.
  absl::Status Axpy(const std::string& out, double factor, const std::string& x,
                    const std::string& y);
  // out_i = x_i * y_i.
  absl::Status Multiply(const std::string& out, const std::string& x, const std::string& y);
  // out_i = in_i where begin <= i < end and low <= |by_i| < high, else 0.
  absl::Status Select(const std::string& out, const std::string& in, const Selection& selection,
                      const std::string& by);
  absl::StatusOr<double> Dot(const std::string& x, const std::string& y);
  // out = sum of the terms in their order, rounded once; answers out . v for each
  // v of `dot_with`.
  absl::StatusOr<std::vector<double>> Combine(const std::string& out,
                                              const std::vector<Term>& terms,
                                              const std::vector<std::string>& dot_with);
  // row_i . column_j at [i * columns.size() + j].
  absl::StatusOr<std::vector<double>> Gram(const std::vector<std::string>& rows,
                                           const std::vector<std::string>& columns);
  // Copies `in` to the job's parameters.
  absl::Status Publish(const std::string& in);

  // Drops a vector together with the next operation, after it: that costs no
  // round trip, and the next operation may still read it. A name that does not
  // exist is ignored.
  void Free(const std::string& name) { pending_free_.push_back(name); }
  // Carries out what is kept and drops what is to be freed: one round trip, none when
  // there is nothing.
  absl::Status Flush();
  // Operations are kept.
  bool keeps() const { return !kept_.empty(); }

  // A name that this space has not given out before, such as "y12".
  std::string NewName(absl::string_view kind) { return absl::StrCat(kind, ++names_); }

  // Names given out, and those of a run that goes on here: later ones are above, and
  // round trips count on.
  uint64_t names() const { return names_; }
  void CountOn(uint64_t names, uint64_t round_trips) {
    names_ = names;
    round_trips_ = round_trips;
  }

  // Messages to the slices, whether what they asked for succeeded or not.
  uint64_t round_trips() const { return round_trips_; }

  // Largest relative error of rounding a value to storage: 2^-24 for float32,
  // 2^-53 for double.
  virtual double unit_roundoff() const = 0;

 protected:
  // Carries out one operation on all slices, after those in `before`, and answers the
  // scalars, added in shard order. `request` has `op`, `free` and `before` set; job,
  // op_ids and epoch are the implementation's. Repeats lost commands itself.
  virtual absl::StatusOr<std::vector<double>> Execute(VectorRequest request) = 0;

  // Carries out `request` after what is kept; any number of scalars will do.
  absl::StatusOr<std::vector<double>> Run(VectorRequest request);
  // Keeps an operation without an answer; runs those kept when they are many.
  absl::Status Keep(VectorRequest request);

 private:
  absl::StatusOr<std::vector<double>> Run(VectorRequest request, size_t scalars);
  void TakePendingFree(VectorRequest* request);

  std::vector<VectorRequest> kept_;
  std::vector<std::string> pending_free_;
  uint64_t names_ = 0;
  uint64_t round_trips_ = 0;
};

// A vector's name that frees the vector when it goes, also on an error path.
// The space must outlive it.
class OwnedVector {
 public:
  OwnedVector() = default;
  // Takes over `name`, which may not exist yet.
  OwnedVector(VectorSpace* space, std::string name) : space_(space), name_(std::move(name)) {}
  static OwnedVector New(VectorSpace* space, absl::string_view kind) {
    return OwnedVector(space, space->NewName(kind));
  }
  OwnedVector(OwnedVector&& other) noexcept { *this = std::move(other); }
  OwnedVector& operator=(OwnedVector&& other) noexcept {
    std::swap(space_, other.space_);
    std::swap(name_, other.name_);
    other.Reset();
    return *this;
  }
  ~OwnedVector() { Reset(); }

  // Empty when it holds none.
  const std::string& name() const { return name_; }
  // Frees the vector with the space's next operation.
  void Reset();
  // Gives the vector up without freeing it.
  std::string Release();

 private:
  VectorSpace* space_ = nullptr;
  std::string name_;
};

}  // namespace monsoon
