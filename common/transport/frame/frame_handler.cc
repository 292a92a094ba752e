#include "common/transport/frame/frame_handler.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/shorten.h"
#include "common/base/utf8.h"

namespace monsoon {
namespace {

// Messages quote what the client sent; a header has room for so much.
constexpr size_t kLongestMessage = 1024;

// Kinds of PeerFrames stand behind those of DataHeader.
constexpr uint64_t kPeerKinds = uint64_t{1} << 32;

}  // namespace

FrameAnswer ErrorAnswer(const absl::Status& status, Verdict verdict) {
  FrameAnswer answer;
  DataError* const error = answer.header.mutable_error();
  error->set_code(status.raw_code());
  error->set_message(Shorten(ValidUtf8(status.message()), kLongestMessage));
  error->set_verdict(verdict);
  return answer;
}

AlignedFloats* FrameScratch::floats() {
  if (floats_.size() == 0) {
    floats_ = AlignedFloats::Uninitialized(kMaxFramePayloadBytes / sizeof(float));
  }
  return &floats_;
}

void FrameKinds::Add(DataHeader::KindCase kind, Serve serve) {
  CHECK(kind != DataHeader::KIND_NOT_SET && kind != DataHeader::kPeer);
  AddKey(kind, std::move(serve));
}

void FrameKinds::AddPeer(uint32_t kind, Serve serve) {
  AddKey(kPeerKinds + kind, std::move(serve));
}

void FrameKinds::AddKey(uint64_t key, Serve serve) {
  const bool is_new = serve_.emplace(key, std::move(serve)).second;
  CHECK(is_new);
}

const FrameKinds::Serve* FrameKinds::Find(const DataHeader& request) const {
  const uint64_t key =
      request.has_peer() ? kPeerKinds + request.peer().kind() : uint64_t{request.kind_case()};
  const auto found = serve_.find(key);
  return found == serve_.end() ? nullptr : &found->second;
}

absl::StatusOr<SharedMapping> FrameHandler::Share(const FetchRequest&,
                                                  std::shared_ptr<const ReadCounts>) {
  return absl::FailedPreconditionError("this server shares no memory");
}

}  // namespace monsoon
