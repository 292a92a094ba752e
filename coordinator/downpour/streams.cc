#include "coordinator/downpour/streams.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "coordinator/state/sorted_list.h"

namespace monsoon {
namespace {

using Positions = google::protobuf::RepeatedPtrField<StreamPosition>;

// Before a program whose stream is taken asks again.
constexpr uint32_t kRetryMs = 200;

absl::Status CheckName(const std::string& name) {
  if (name.empty() || name.size() > Streams::kMostNameBytes ||
      !std::ranges::all_of(name, [](char c) { return absl::ascii_isprint(c); })) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a stream's name has 1 to ", Streams::kMostNameBytes, " printable characters"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Streams::Check(const Positions& positions) {
  if (positions.size() > kMostStreams) {
    return absl::InvalidArgumentError(
        absl::StrCat(positions.size(), " streams; at most ", kMostStreams));
  }
  size_t bytes = 0;
  for (int i = 0; i < positions.size(); ++i) {
    RETURN_IF_ERROR(CheckName(positions[i].name()));
    if (positions[i].state().size() > kMostStateBytes) {
      return absl::InvalidArgumentError(absl::StrCat("the position of stream ", positions[i].name(),
                                                     " has ", positions[i].state().size(),
                                                     " bytes; at most ", kMostStateBytes));
    }
    for (int earlier = 0; earlier < i; ++earlier) {
      if (positions[earlier].name() == positions[i].name()) {
        return absl::InvalidArgumentError(
            absl::StrCat("stream ", positions[i].name(), " stands there twice"));
      }
    }
    bytes += positions[i].state().size();
  }
  return bytes <= kMostTotalBytes
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat("the positions of streams have ", bytes,
                                                       " bytes; at most ", kMostTotalBytes));
}

const TakenStream* Streams::Find(absl::string_view name) const { return FindStream(all(), name); }

bool Streams::IsTaken(const TakenStream* stream, uint32_t by_another_than, const IsLive& is_live) {
  return stream != nullptr && stream->has_taken_by() && stream->taken_by() != by_another_than &&
         is_live(stream->taken_by());
}

void Streams::TakeFor(uint32_t worker, const std::string& name) {
  const TakenStream* const stream = Find(name);
  if (stream != nullptr && stream->has_taken_by() && stream->taken_by() == worker) {
    return;
  }
  job_.Make([&](StateUpdate* update) {
    update->mutable_stream_taken()->set_name(name);
    update->mutable_stream_taken()->set_worker(worker);
  });
}

size_t Streams::BytesWithout(absl::string_view name) const {
  size_t bytes = 0;
  for (const TakenStream& stream : all()) {
    bytes += stream.position().name() == name ? 0 : stream.position().state().size();
  }
  return bytes;
}

absl::StatusOr<TakeStreamReply> Streams::Take(uint32_t worker, const std::string& name,
                                              const IsLive& is_live) {
  RETURN_IF_ERROR(CheckName(name));
  const TakenStream* stream = Find(name);
  TakeStreamReply reply;
  if (IsTaken(stream, worker, is_live)) {
    reply.set_retry_ms(kRetryMs);
    reply.set_held_by(absl::StrCat("worker/", stream->taken_by()));
    return reply;
  }
  if (stream == nullptr && all().size() >= kMostStreams) {
    return absl::InvalidArgumentError(absl::StrCat("the job has ", all().size(),
                                                   " streams already; their names are to be the "
                                                   "same in each run of a program"));
  }
  TakeFor(worker, name);
  *reply.mutable_position() = Find(name)->position();
  return reply;
}

std::vector<std::string> Streams::NoteRead(const SessionKey& session, const Positions& read,
                                           const IsLive& is_live) {
  std::vector<std::string> left_out;
  for (const StreamPosition& position : read) {
    const TakenStream* const stream = Find(position.name());
    const bool room = BytesWithout(position.name()) + position.state().size() <= kMostTotalBytes &&
                      (stream != nullptr || all().size() < kMostStreams);
    if (!room || IsTaken(stream, session.worker(), is_live)) {
      std::set<std::string>& told = left_out_[session.worker()];
      if (told.size() < kMostStreams && told.insert(position.name()).second) {
        left_out.push_back(position.name());
      }
      continue;
    }
    TakeFor(session.worker(), position.name());
    job_.Make([&](StateUpdate* update) {
      StreamPosition* const noted = update->mutable_stream_read();
      noted->set_name(position.name());
      noted->set_state(position.state());
      noted->set_worker(session.worker());
      noted->set_incarnation(session.incarnation());
      noted->set_push(position.push());
    });
  }
  return left_out;
}

std::vector<Streams::ReadAgain> Streams::Leave(const SessionKey& session,
                                               std::optional<uint64_t> pushes) {
  left_out_.erase(session.worker());
  std::vector<ReadAgain> again;
  for (const TakenStream& stream : all()) {
    if (stream.has_taken_by() && stream.taken_by() == session.worker()) {
      again.push_back({stream.position().name(), stream.position().read_again()});
    }
  }
  if (again.empty()) {
    return again;
  }
  job_.Make([&](StateUpdate* update) {
    update->mutable_streams_left()->set_worker(session.worker());
    update->mutable_streams_left()->set_incarnation(session.incarnation());
    if (pushes) {
      update->mutable_streams_left()->set_pushes(*pushes);
    }
  });
  for (ReadAgain& each : again) {
    each.pushes = Find(each.stream)->position().read_again() - each.pushes;
  }
  std::erase_if(again, [](const ReadAgain& each) { return each.pushes == 0; });
  return again;
}

void Streams::Describe(JobDescription::Data* data) const {
  for (const TakenStream& stream : all()) {
    JobDescription::Stream* const told = data->add_stream();
    told->set_name(stream.position().name());
    if (stream.has_taken_by()) {
      told->set_taken_by(stream.taken_by());
    }
    if (stream.position().has_worker()) {
      told->set_read_by(stream.position().worker());
    }
    told->set_push(stream.position().push());
    told->set_state_bytes(stream.position().state().size());
    told->set_read_again(stream.position().read_again());
  }
}

}  // namespace monsoon
