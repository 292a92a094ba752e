// ParameterClient: the logical fetch and push of one session over all shards
// of a job, as proto/tensor.proto puts them on the wire.
//
// One thread may fetch while another pushes (each direction has one stream per
// shard and is driven by the calling thread); two calls of one direction wait
// for each other, contributions count as pushes. Every call blocks at most for
// the deadline, and up to three seconds more for each shard that has to be found
// first and does not answer.
//
// A broken stream is opened again within the deadline and what was not
// acknowledged is sent again under the same sequence, so that an acknowledged
// gradient counts exactly once. Errors name `ps/i`:
//   FAILED_PRECONDITION  the shard refused the session or its epoch: see
//                        IsSessionLost. Join again.
//   DEADLINE_EXCEEDED    a shard did not answer; the last cause is named
//   INVALID_ARGUMENT     a value is not finite (of a push: nothing was sent), or a
//                        fetch or write was malformed
//   INTERNAL             a shard did not understand a push, which others may have
//                        applied
//   CANCELLED            Cancel() was called
//
// With keep_bytes a shard that is silent, or was started anew, is *away* until it has all
// pushes again (push_keeper.h). A push then returns with its sequence while some shard
// has not got it; acknowledged() tells when all have. A fetch is UNAVAILABLE meanwhile:
// what a new life serves before it has everything must not be used.
//   DATA_LOSS            a shard lost what it had called durable
//
// In a job with rounds a fetch waits until those are over that the session has pushed to:
// UNAVAILABLE after the deadline (IsRoundOpen).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/model/fragment_map.h"
#include "common/model/shard_map.h"
#include "common/model/stripe_versions.h"
#include "common/model/table_map.h"
#include "common/model/tensor_slices.h"
#include "common/transport/frame/fault.h"
#include "common/transport/frame/frame_transport.h"
#include "common/transport/transport.h"
#include "proto/wire_format.pb.h"
#include "ps_server/client/row_gradient.h"

namespace monsoon {

// What a fetch tells of one stripe.
struct StripeMark {
  uint64_t shard_epoch = 0;       // 0: not known
  uint64_t version = 0;           // pushes applied to the stripe
  uint64_t applied_sequence = 0;  // last push of this session that it lacks nothing of
  bool dropped = false;           // of a push's base: the stripe has dropped that push
};

// [shard][stripe]. Empty: nothing was fetched.
struct FetchMarks {
  std::vector<std::vector<StripeMark>> shard;
};

struct FetchStats {
  uint64_t bytes = 0;        // of records and of what was read from shared memory
  uint32_t rpcs = 0;         // request frames; none for what is read from shared memory
  uint32_t retries = 0;      // streams opened again
  uint64_t fetch_width = 0;  // maximum minus minimum of the stripe versions
};

// What a client keeps of pushes that are not durable yet.
struct KeptPushes {
  uint64_t bytes = 0;
  uint64_t limit_bytes = 0;   // 0: it keeps none
  uint64_t copied_bytes = 0;  // of pushes that were copied to be kept, so far
  uint64_t replayed = 0;      // records sent again to shards that were started anew
  bool wants_checkpoint = false;
  bool stands_still = false;             // until there is one
  std::optional<uint32_t> silent_shard;  // one that does not answer
};

class SilentPeer;  // common/transport/frame/exchange.h
class Tls;

struct ParameterClientOptions {
  std::string job;
  uint64_t job_term = 0;  // in which it was submitted; SessionKey
  uint32_t worker = 0;
  uint64_t incarnation = 0;
  uint64_t layout_hash = 0;
  ShardMap map;
  FragmentMap fragments;               // of the map; empty: whole
  std::vector<TableMap> tables;        // of the model, on so many shards; not with fragments
  std::vector<std::string> addresses;  // one a shard
  std::shared_ptr<Tls> tls;            // as of MakeChannel
  // To each shard over gRPC, for fetches and for pushes each (cluster.proto, connections).
  uint32_t connections = 1;
  // One a shard, of OpenSession. If read_only empty, or those of the lives whose rows are wanted.
  std::vector<uint64_t> shard_epochs;
  absl::Duration deadline = absl::Seconds(10);
  // The shards keep generations: so much may be kept of pushes until they are durable,
  // to be sent again to a shard that was started anew. 0: a shard's death ends the
  // session.
  uint64_t keep_bytes = 0;
  bool read_only = false;  // no session: only fetches, and Write before the first session
  FaultOptions fault;
  // The shards average pushes in rounds: a fetch waits for those of the session's pushes.
  bool rounds = false;
  // Other workers that are there bring a round what it lacks in less than this, where they do not
  // stand still themselves. After it no round waits for this session any more, until it pushes.
  absl::Duration round_patience = absl::Seconds(2);
  // How gradients and parameters travel (downpour.proto, Downpour). Vectors and
  // contributions of batch jobs are always FLOAT32.
  WireFormat push_format = FLOAT32;
  std::vector<Slice> values;  // parts of which pushes bring values (PushEncoder)
  WireFormat fetch_format = FLOAT32;
  WireFormat fetch_changes = FLOAT32;  // else Fetch brings changes of the public copy, in that
  // Fetches give parameters and vectors as BFLOAT16: spans of map.size() / 2 floats hold two
  // values in the place of each. What comes as FLOAT32 is rounded to the nearest, ties to even.
  // With fetch_format BFLOAT16, or read_only.
  bool halves = false;
  double top_k_share = 0;     // TOP_K and TOP_K_2BIT only
  double residual_decay = 1;  // likewise: what a push leaves out stays, times that
  // AUTO may be changed by the environment: MONSOON_TRANSPORT=grpc or
  // shared_memory.
  Transport transport = Transport::AUTO;
  // Makes what carries the frames to the shards, and no memory of theirs is mapped; called
  // once for fetches and once for all else. Null: `transport` says.
  std::function<std::unique_ptr<FrameTransport>()> make_transport;
  // Told, from a thread that calls, why a call goes on asking a shard: "ps/0 at
  // HOST:PORT: ..."; after a few tries, and again each second or so. May be null.
  std::function<void(const std::string& why)> on_waiting;
  // In place of the client's own (kept().silent_shard): who is silent stays noted from one client
  // to the next. It must outlive the client; may be null.
  SilentPeer* silent = nullptr;
};

// Whether a fetch has failed for nothing but a round that is still open, and which says whom
// it waits for.
bool IsRoundOpen(const absl::Status& status);

// Whether `status` says that a shard no longer knows the session or has been
// started anew: the replica must join again as a new incarnation.
bool IsSessionLost(const absl::Status& status);

// A gradient to push, map.size() floats. With an owner they never change again while
// somebody holds it, so that a client that keeps pushes keeps these floats and no copy.
//
// Or what the pusher has encoded in the push format, BFLOAT16 or FLOAT16: the whole
// vector's bytes. Error feedback is then the pusher's, and what a shard refuses is given
// up.
struct GradientView {
  // From anything that is a span of floats.
  template <typename Floats>
  requires std::convertible_to<Floats, std::span<const float>> GradientView(
      const Floats& from, std::shared_ptr<const void> kept_by = nullptr)
      : floats(from), owner(std::move(kept_by)) {}

  static GradientView Encoded(std::span<const std::byte> bytes,
                              std::shared_ptr<const void> kept_by) {
    GradientView view(std::span<const float>(), std::move(kept_by));
    view.encoded = bytes;
    return view;
  }

  std::span<const float> floats;
  std::span<const std::byte> encoded;  // empty: floats are
  std::shared_ptr<const void> owner;
  float weight = 1;                   // as PushRequest.weight, finite and above 0
  float part = 1;                     // as PushRequest.part, in (0, 1]
  absl::Duration patience;            // as PushRequest.patience_ms
  std::span<const RowGradient> rows;  // of tables, beside the vector
  // Tensors without any gradient, as PushRequest.absent, rising: what the floats hold of them
  // counts nothing.
  std::span<const TensorSlice> absent;
};

class ParameterClient {
 public:
  // InvalidArgument when the options contradict each other or MONSOON_TRANSPORT
  // is none of its values. Connects lazily.
  static absl::StatusOr<std::unique_ptr<ParameterClient>> Create(ParameterClientOptions options);
  virtual ~ParameterClient() = default;

  // Reads the whole vector; parameters.size() is map.size(), or half of it (options.halves). On an
  // error the
  // contents of `parameters` and `marks` are not defined. `marks` and `stats`
  // may be null; marks of an earlier fetch are written over in place.
  virtual absl::Status Fetch(std::span<float> parameters, FetchMarks* marks, FetchStats* stats) = 0;
  // Fetch without a message and without waiting for anybody, where all shards'
  // parameters are in memory that this process has mapped and none is being
  // written: a copy, and done. False: Fetch must be called; what `parameters`,
  // `marks` and `stats` hold is then not defined. The first Fetch maps.
  virtual bool FetchMapped(std::span<float> parameters, FetchMarks* marks, FetchStats* stats);
  // The same as Fetch, in FLOAT32 whatever the fetch format: what an evaluation
  // judges.
  virtual absl::Status FetchExact(std::span<float> parameters, FetchMarks* marks,
                                  FetchStats* stats) {
    return Fetch(parameters, marks, stats);
  }
  // Fetch of the stripes of one fragment: other floats stay as they are, and other marks are of
  // nothing.
  virtual absl::Status FetchFragment(uint32_t fragment, std::span<float> parameters,
                                     FetchMarks* marks, FetchStats* stats);

  struct PushResult {
    int64_t staleness = -1;        // maximum over the stripes; -1: not known
    uint64_t sequence = 0;         // of this push; the first is 1
    uint32_t duplicates = 0;       // records acknowledged that were applied before
    uint32_t refused_invalid = 0;  // records that the shards' validation refused
    uint32_t dropped = 0;          // records that were too old for the job
    uint32_t rpcs = 0;             // frames, repeated ones included
    uint32_t retries = 0;          // streams opened again
    uint64_t bytes = 0;            // of gradients, repeated ones included
    std::string first_refusal;     // says what was wrong, if refused_invalid > 0
  };
  // Sends a gradient, with fragments the push's fragment of it (FragmentMap::OfPush), and waits
  // until every stripe has acknowledged or refused it. `base` marks the oldest fetch that
  // contributed. The gradient must not change until it returns. InvalidArgument with the flat index
  // of the first value that is not finite: nothing was sent and no sequence was used. After any
  // other error the push is not finished: calling again with the same gradient completes it under
  // the same sequence, with the same bytes. What a lossy push format leaves out, and what the
  // shards refused, is added to the next push.
  virtual absl::StatusOr<PushResult> Push(const GradientView& gradient, const FetchMarks& base) = 0;

  // Reads rows of tables, and nothing else, by messages; errors as those of Fetch. `stats` may
  // be null.
  virtual absl::Status FetchRows(std::span<const RowRequest> wanted, FetchStats* stats);

  // Tells the shards of a job with rounds that this session has nothing to push for now: no
  // round waits for it until its next push. To be repeated while it is so, since a shard that
  // was started anew does not know it; those that are away are left out.
  virtual absl::Status Pass() { return absl::OkStatus(); }

  // Whether PushAndFetch saves a round trip: all shards' slices are small, and
  // their parameters are not mapped.
  virtual bool combines();
  // Push, whose acknowledgements bring what a Fetch right after it would, in one
  // round trip: `parameters`, `marks` and `stats` are then set, and *fetched. It
  // stays false where a shard could not; what they hold is not defined. Not
  // while a Fetch is in progress.
  virtual absl::StatusOr<PushResult> PushAndFetch(const GradientView& gradient,
                                                  const FetchMarks& base,
                                                  std::span<float> parameters, FetchMarks* marks,
                                                  FetchStats* stats, bool* fetched);

  // Reads a named vector of a batch job, also without a session; vector.size()
  // is map.size(). NotFound names it and the shard that does not have it.
  // `stats` may be null.
  virtual absl::Status FetchVector(const std::string& name, std::span<float> vector,
                                   FetchStats* stats);

  struct ContributeResult {
    uint32_t duplicates = 0;  // stripes that had the contribution already
    bool closed = false;      // some shard refused it: the evaluation is over
    uint32_t rpcs = 0;        // frames, repeated ones included
    uint32_t retries = 0;     // streams opened again
    uint64_t bytes = 0;       // of frames, repeated ones included
  };
  // Sends one contribution's gradient (map.size() floats) to the sum of
  // `evaluation` and waits until every stripe has it or says that the
  // evaluation is over. Safe to repeat, also by another replica: each stripe
  // counts a contribution once. InvalidArgument with the flat index of the
  // first value that is not finite: nothing was sent.
  virtual absl::StatusOr<ContributeResult> Contribute(uint64_t evaluation, uint32_t contribution,
                                                      std::span<const float> gradient);

  // What Write replaces.
  struct WriteOptions {
    // 0: the parameters; 1 and 2: the slots of the optimizer's state.
    uint32_t slot = 0;
    // What becomes of the stripes' versions (submit --resume). Empty: they stay.
    StripeVersions versions;
    // Which of several writers, one after another, this is. A shard that has seen a later
    // one, or this one's seal, refuses it: FAILED_PRECONDITION with both numbers.
    uint64_t writer = 0;
  };
  // Replaces a float for each parameter, map.size() in all, of which the padding is
  // zero. Shards refuse it once the job has had a session. Safe to repeat, also after
  // an error. InvalidArgument with the flat index of the first value that is not finite
  // (nothing was sent then), and for versions of another shape than the map.
  virtual absl::Status Write(std::span<const float> values, const WriteOptions& options) = 0;
  // The parameters (submit --init).
  absl::Status Write(std::span<const float> parameters) {
    return Write(parameters, WriteOptions());
  }

  // The same of rows of a table; WriteOptions.writer counts alone.
  virtual absl::Status WriteRows(const RowWrite& rows, const WriteOptions& options);

  // Ends the writing on all shards: each compares the checksum of its slice with that of
  // `parameters`, which `writer` wrote before, map.size() floats, and from then on refuses
  // this writer and earlier ones. Safe to repeat, also after an error. FAILED_PRECONDITION
  // names the shard where something is missing (write again), or the later writer that
  // has taken over.
  virtual absl::Status Seal(std::span<const float> parameters, uint64_t writer);

  // ---- of a job whose shards only store (CreateShardJobRequest.store_only) ----
  //
  // FetchState is a fetch, WriteState and SealState are pushes: that is what they exclude, and what
  // may go on meanwhile in another thread.

  // Reads a slot of the optimizer's state as it is in memory, or for slot 0 the parameters, in
  // FLOAT32 and by messages alone: values.size() is map.size(). Errors as those of Fetch;
  // InvalidArgument where the optimizer has not so many slots, and with options.halves. `marks` and
  // `stats` may be null.
  virtual absl::Status FetchState(uint32_t slot, std::span<float> values, FetchMarks* marks,
                                  FetchStats* stats);
  // Writes a slot (0: the parameters; map.size() floats, of which the padding is zero) to the
  // shards' spare room, as part of the session's write of that number. All stripes are to have
  // `version`. Nothing changes that can be read before the write is sealed and the coordinator has
  // it adopted. Safe to repeat, also after an error. A number higher than those before begins
  // anew; FAILED_PRECONDITION with both numbers for a lower one. Else errors as those of Push, and
  // InvalidArgument as from Write.
  virtual absl::Status WriteState(uint32_t slot, std::span<const float> values, uint64_t version,
                                  uint64_t write);
  // Ends that write on all shards: each compares what it has with the checksum of `slots`: the
  // parameters and then each slot of the optimizer's state, map.size() floats each. Safe to repeat,
  // also after an error. FAILED_PRECONDITION names the shard and what it lacks (write again), or
  // the later write that is there.
  virtual absl::Status SealState(std::span<const std::span<const float>> slots, uint64_t write);

  // Per shard what carries its frames and why: "shared memory", "gRPC (the peer
  // is on another host)"; "" before the first call. Logged when it is chosen.
  // Thread safe.
  virtual std::vector<std::string> transports() const;

  // ---- with keep_bytes ----

  // The epoch of the shard's life that serves from now on, as the coordinator says.
  // Thread safe.
  virtual void NameEpoch(uint32_t, uint64_t) {}
  // Pushes need not survive a shard any more: none is kept, and none waited for. Final.
  // Thread safe.
  virtual void Forgo() {}
  // A shard that is away, and why; nothing: none is. Thread safe.
  virtual std::optional<std::string> away() { return std::nullopt; }
  // Per shard, the epoch of the life that has all that it ever acknowledged; 0: it is away. Thread
  // safe.
  virtual std::vector<uint64_t> ready_epochs() { return {}; }
  // Waits until no shard is away, for `patience` at most; OK also if some still is.
  virtual absl::Status BringBack(absl::Duration) { return absl::OkStatus(); }
  // All shards have acknowledged the pushes up to this one. Without keep_bytes: all
  // that Push returned. Thread safe.
  virtual uint64_t acknowledged() { return UINT64_MAX; }
  // Waits until every push is in a generation that is on the disk of its shard: that one, by
  // shard; nothing where no push is kept. DEADLINE_EXCEEDED says what is missing.
  virtual absl::StatusOr<std::vector<uint64_t>> AwaitDurable(absl::Duration) {
    return std::vector<uint64_t>();
  }
  // Thread safe.
  virtual KeptPushes kept() { return {}; }

  // Calls in progress and later ones return CANCELLED. Thread safe.
  virtual void Cancel() = 0;
};

}  // namespace monsoon
