// CheckpointSchedule: when a generation of one job is ordered, which shards have still to
// be told, and when it is held: on the disk of every shard.
//
// - One generation is under way at a time. Each shard that does not show it is told
//   again, until all do: shards take a repeated order as one.
// - While the job trains, one is ordered every so many seconds or pushes, if anything was
//   applied since the last order, but never before ten times as long as the last one took;
//   three times where a worker says that it cannot keep much more. Of a batch one is
//   ordered between two iterations, every so many seconds.
// - One that was asked for begins after the request: what is under way does not count.
// - A worker that waits for its pushes to become durable gets one that begins after it
//   began to wait, but while others train not before that bound either.
// - The last one is ordered when all sessions are closed.
// - A shard that was started anew is told of what is under way again, once it shows the
//   slice.
//
// What it does not do: send orders, say what the context of one is, or know whether
// shards keep anything at all.
//
// A pure state machine over the job's durable state, beside which it has what shards say.
// `now` (since any origin) never goes back. Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/state/state_writer.h"
#include "google/protobuf/repeated_field.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace monsoon {

// An order is repeated after so long.
inline constexpr absl::Duration kOrderRetry = absl::Seconds(1);
// Checkpoints take at most about one part in so many of the time.
inline constexpr int kCheckpointShare = 10;
// The same while a worker waits for them, or soon will: it would stand still longer.
inline constexpr int kWaitingShare = 3;
// A worker looks many times a second what is durable: one that nobody trains with, and
// that still waits so long after a generation was held, needs another.
inline constexpr absl::Duration kSeenAfter = absl::Seconds(2);

class CheckpointSchedule {
 public:
  // What the job does with its parameters.
  enum class Activity {
    kBusy,    // changes them as one: a generation would hold a mixture
    kTrains,  // pushes change them
    kBatch,   // a batch has changed them, and waits between two iterations
    kStill,   // nobody changes them now
    kOver,    // all sessions are closed for good
  };

  struct Event {
    std::string kind;  // as in JobDescription.Event
    std::string task;
    std::string text;
  };

  // For `writer`'s job, whose slices are on so many shards.
  CheckpointSchedule(const JobWriter& writer, const Checkpoint& config, uint32_t shards);

  // ---- orders ----

  // Why a generation is to be ordered now; nothing while none is. `started`: when the
  // training began.
  std::optional<std::string> Wanted(Activity activity, absl::Duration started,
                                    absl::Duration now) const;
  // Orders the next generation. None is under way. `at_end`: all sessions are closed.
  void Order(CheckpointContext context, bool at_end, absl::Duration now);
  // The generation under way, if there is one, is not made any more: what it was to hold
  // is gone. Its number is not given out again.
  void Abandon();
  // A session ends by these, one a shard: what it has pushed is in them, and never comes again.
  // `session` says how much that is, without its generation.
  void NoteLeft(LeftSession session, const google::protobuf::RepeatedField<uint64_t>& generations);
  // No generation is made any more, for this reason: what the shards have stays in their
  // memory only.
  void GiveUp(const std::string& reason);
  // Somebody wants what is applied now on the disk: the generation that will hold it.
  // `over`: nothing is applied any more. `reason`: why, for people. `generations`: so many
  // of them, one after the other; a shard keeps two, and with two both have it.
  uint64_t Request(bool over, const std::string& reason = "asked for", uint64_t generations = 1);
  // Whether `worker` waits, as its newest heartbeat says, for its pushes to become durable.
  void NoteWaiting(uint32_t worker, bool waits, absl::Duration now);

  // The shards to send the order to now; each will be answered by OnResult. `ended`: the
  // job has ended, and only what was asked for is ordered again.
  std::vector<uint32_t> Due(bool ended, absl::Duration now);

  // ---- what shards say ----

  // To an order.
  void OnResult(uint32_t shard, uint64_t generation, const absl::Status& status,
                absl::Duration now);
  // In a poll.
  void NoteShard(uint32_t shard, const ShardJobStatus& status, absl::Duration now);
  // From now on the shard's folder is one that has the newest generation of which it has told, held
  // by all or not: a worker that is gone, or whose death nobody has noticed yet, does not send
  // again what an older copy of the folder lacks.
  void KeepToTold(uint32_t shard);
  // True, now and then, while a generation is under way: it may be there, so that a poll
  // is worth its while. How long one took would not be known otherwise.
  bool WantsPoll(absl::Duration now);
  // The slices are made anew: all that shards said is void.
  void ForgetShards();
  // The shard was started anew, and may have forgotten an order; its versions go back. It
  // is told nothing before NoteShard.
  void ForgetShard(uint32_t shard);

  // ---- what people see ----

  const CheckpointState& state() const { return writer_.job().checkpoint(); }
  bool under_way() const { return state().ordered() != 0; }
  // When the generation that is held was ordered; nothing where that was not noticed in this
  // life of the coordinator.
  std::optional<absl::Duration> held_ordered_at() const { return held_ordered_at_; }
  // All sessions were closed when the newest generation was ordered, and it is held.
  bool last_is_held() const { return state().at_end() && state().held() == state().last(); }
  // Why the generation that is under way cannot be written, since the last one that was;
  // "": nothing is known to be wrong.
  const std::string& error() const { return error_; }
  // Events since the last call: the first generation, those that were asked for, the last
  // one, and the first error after a success.
  std::vector<Event> TakeEvents();

 private:
  struct Shard {
    bool seen = false;
    bool away = false;  // it has no slice
    uint64_t generation = 0;
    uint64_t version = 0;
    bool in_flight = false;
    absl::Duration not_before = -absl::InfiniteDuration();
  };

  // Of all shards; nothing before each was seen.
  std::optional<uint64_t> LowestVersion() const;
  // Since the last order, or the beginning.
  std::optional<uint64_t> Applied() const;
  // A generation was ordered after this time.
  bool OrderedSince(absl::Duration time) const;
  void NoteError(uint32_t shard, const std::string& error);
  void Hold(absl::Duration now);

  const JobWriter writer_;
  const Checkpoint config_;
  std::vector<Shard> shards_;
  // The lowest version at the last order; nothing: not known yet.
  std::optional<uint64_t> version_;
  // By worker: since when it waits for a generation that is ordered later.
  std::map<uint32_t, absl::Duration> waiting_;
  std::string reason_;  // of the newest request
  std::optional<absl::Duration> held_ordered_at_;
  absl::Duration next_look_;
  absl::Duration look_pause_;
  std::string error_;
  std::vector<Event> events_;
};

}  // namespace monsoon
