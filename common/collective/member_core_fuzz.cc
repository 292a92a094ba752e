// Any frames, to a member that is in a call or not: what has a place lies within the vector, once;
// what is kept stays within the window. A frame is a byte that says how long its header is (0: the
// call ends and the next one begins), the header, and a byte with the number of its floats.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "common/collective/member_core.h"

namespace {

using monsoon::MemberCore;

constexpr uint64_t kCount = 100;

class Member {
 public:
  Member()
      : plan_(monsoon::MakePlan({monsoon::Operation::kAllReduce, monsoon::Algorithm::kDirect,
                                 monsoon::SumOrder::kByRank, 0, kCount, 16},
                                1, 3)),
        core_({1, 1, {"a", "b", "c"}}),
        values_(kCount) {
    Start();
  }

  void Start() { core_.Start(&plan_, values_, absl::Seconds(9), absl::Seconds(1)).IgnoreError(); }
  void Restart() {
    core_.Stop();
    Start();
  }

  void Take(const monsoon::PeerHeader& header, size_t floats) {
    const auto arrival = core_.Arrive(header, floats * sizeof(float), absl::Seconds(1));
    if (!arrival.ok()) {
      CHECK(!arrival.status().message().empty());
      return;
    }
    CHECK(!(arrival->taking.has_value() && arrival->keep));
    if (arrival->taking.has_value()) {
      CHECK_EQ(arrival->taking->to.size(), floats);
      Write(*arrival->taking);
    } else if (arrival->keep) {
      core_.Keep(header, monsoon::AlignedFloats(floats));
    }
    while (const auto kept = core_.NextKept()) {
      CHECK_EQ(kept->taking.to.size(), kept->floats.size());
      Write(kept->taking);
    }
    core_.AnswerTo(header);
  }

 private:
  // A sanitizer sees what lies outside.
  void Write(const MemberCore::Taking& taking) {
    for (float& value : taking.to) {
      value += 1;
    }
    core_.EndTaking(taking);
  }

  const monsoon::Plan plan_;
  MemberCore core_;
  std::vector<float> values_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Member member;
  absl::string_view rest(reinterpret_cast<const char*>(data), size);
  while (!rest.empty()) {
    const size_t length = static_cast<uint8_t>(rest[0]);
    rest.remove_prefix(1);
    if (length == 0) {
      member.Restart();
      continue;
    }
    const absl::string_view bytes = rest.substr(0, length);
    rest.remove_prefix(bytes.size());
    const size_t floats = rest.empty() ? 0 : static_cast<uint8_t>(rest[0]);
    rest.remove_prefix(rest.empty() ? 0 : 1);
    const auto header = monsoon::DecodePeerHeader(bytes);
    if (!header.ok()) {
      CHECK(!header.status().message().empty());
      continue;
    }
    CHECK(monsoon::DecodePeerHeader(monsoon::EncodePeerHeader(*header)).ok());
    if (header->sender < 3 && header->sender != 1 && header->receiver == 1) {
      member.Take(*header, floats);
    }
  }
  return 0;
}
