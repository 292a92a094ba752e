// SimulatedGroup: the cores of all members of a group, and streams between them whose frames come
// late, at any step of the others, by a seed. Floats are read when a frame arrives, as a transport
// may that sends from where they are, and a frame that is being taken is done with only later, as
// by a thread of its own. Time is virtual: it goes on when nothing else can.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/random.h"
#include "common/collective/member_core.h"
#include "common/collective/plan.h"

namespace monsoon {

struct SimulationOptions {
  uint32_t window = MemberCore::kWindow;
  uint64_t seed = 1;
  absl::Duration patience = absl::Seconds(8);
  // A frame in so many comes twice; a stream in so many deliveries breaks. 0: none.
  uint32_t twice_in = 0;
  uint32_t breaks_in = 0;
  // This member does nothing any more after so many actions of its own.
  std::optional<uint32_t> stops;
  uint32_t stops_after = 0;
  bool killed = false;  // then its streams break; else they are silent
};

class SimulatedGroup {
 public:
  SimulatedGroup(uint32_t members, const SimulationOptions& options);

  // One call of all members; vectors[i] is that of rank i. A status a member.
  std::vector<absl::Status> Call(const Collective& collective,
                                 std::vector<std::vector<float>>* vectors);
  // Some calls that members make without waiting for each other between them.
  std::vector<absl::Status> Calls(const std::vector<Collective>& collectives,
                                  std::vector<std::vector<std::vector<float>>>* vectors);

  MemberCore* core(uint32_t rank) { return cores_[rank].get(); }
  static std::string NameOf(uint32_t rank) { return "worker/" + std::to_string(rank); }
  absl::Duration now() const { return now_; }
  // What a member did, of any kind.
  uint32_t actions(uint32_t rank) const { return actions_[rank]; }
  // Calls end in time, or there is a bug.
  bool hung() const { return hung_; }

 private:
  using Pair = std::pair<uint32_t, uint32_t>;  // from, to
  struct Reply {
    uint64_t request_id;
    absl::StatusOr<PeerAnswer> answer;
  };
  struct Stream {
    std::deque<MemberCore::Outgoing> requests;
    std::deque<Reply> replies;
    // The first request, being taken or kept.
    std::optional<MemberCore::Arrival> arrival;
  };
  struct Member {
    std::deque<std::pair<std::unique_ptr<Plan>, std::vector<float>*>> calls;
    absl::Status status;
    bool in_call = false;
    bool stopped = false;
  };

  bool Act();  // one action, if there is one
  uint32_t Below(uint32_t bound) { return random_.Below(drawn_++, bound); }
  bool OneIn(uint32_t count) { return count > 0 && Below(count) == 0; }
  // One step of a member's own thread.
  bool Own(uint32_t rank);
  bool SendOne(uint32_t rank);
  bool Deliver(Pair pair);
  bool DeliverReply(Pair pair);
  void Arrive(Pair pair, Stream* stream);
  void Finish(Pair pair, Stream* stream);
  void Break(Pair pair);
  void NoteAction(uint32_t rank);
  bool Done() const;

  const SimulationOptions options_;
  const PhiloxStream random_;
  uint64_t drawn_ = 0;
  std::vector<std::unique_ptr<MemberCore>> cores_;
  std::vector<Member> states_;
  std::vector<uint32_t> actions_;
  std::map<Pair, Stream> streams_;
  absl::Duration now_;
  bool hung_ = false;
};

}  // namespace monsoon
