// Streams: the streams of samples that programs read in a job, by the names that these give them:
// who reads which, and how far each was read (Job.steps() in Python, `state`).
//
// A position is known for what all shards have acknowledged, as a block that is done is. So whoever
// goes on from it trains on nothing twice that was pushed before it; what the last session had
// pushed beyond it, is read again, and counted.
//
// A pure state machine over the job's durable state. Not thread safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/state/state_writer.h"
#include "proto/checkpoint.pb.h"
#include "proto/coordinator.pb.h"
#include "proto/procedure_state.pb.h"
#include "proto/tensor.pb.h"

namespace monsoon {

class Streams {
 public:
  // What a job has of them at most: a generation carries all of it.
  static constexpr int kMostStreams = 1024;
  static constexpr size_t kMostStateBytes = 64u << 10;        // of one
  static constexpr size_t kMostTotalBytes = size_t{1} << 20;  // of all
  static constexpr size_t kMostNameBytes = 128;

  // What is wrong with the positions of a generation, or of a report.
  static absl::Status Check(const google::protobuf::RepeatedPtrField<StreamPosition>& positions);

  explicit Streams(const JobWriter& job) : job_(job) {}

  // `worker` reads it from now on; safe to repeat. InvalidArgument for a name that cannot be one,
  // and where the job has too many.
  using IsLive = std::function<bool(uint32_t worker)>;
  absl::StatusOr<TakeStreamReply> Take(uint32_t worker, const std::string& name,
                                       const IsLive& is_live);
  // What the session has read, of which Check has said nothing; what its worker has not taken, it
  // takes with that. A position for which there is no room, and one of a stream that another
  // replica reads, are left out: returns their names, each once a session.
  std::vector<std::string> NoteRead(const SessionKey& session,
                                    const google::protobuf::RepeatedPtrField<StreamPosition>& read,
                                    const IsLive& is_live);
  // A session is over, of whose pushes shards have so many; nothing: not known. Tells
  // of each of its streams how many of them lie beyond its position, where these are any.
  struct ReadAgain {
    std::string stream;
    uint64_t pushes = 0;
  };
  std::vector<ReadAgain> Leave(const SessionKey& session, std::optional<uint64_t> pushes);

  void Describe(JobDescription::Data* data) const;

 private:
  const TakenStream* Find(absl::string_view name) const;
  // Another replica that is there reads it.
  static bool IsTaken(const TakenStream* stream, uint32_t by_another_than, const IsLive& is_live);
  // The worker's from now on, if it is not already.
  void TakeFor(uint32_t worker, const std::string& name);
  size_t BytesWithout(absl::string_view name) const;
  const google::protobuf::RepeatedPtrField<TakenStream>& all() const {
    return job_.job().downpour().stream();
  }

  const JobWriter job_;
  // By worker: streams of its session that were left out.
  std::map<uint32_t, std::set<std::string>> left_out_;
};

}  // namespace monsoon
