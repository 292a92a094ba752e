#include <algorithm>
#include <string>

#include "coordinator/state/apply.h"
#include "coordinator/state/sorted_list.h"

namespace monsoon::internal {
namespace {

// The stream, added at its place if there was none.
TakenStream* TakeNamed(const std::string& name, DownpourState* downpour) {
  auto* const list = downpour->mutable_stream();
  const auto place = PlaceOfStream(*list, name);
  const auto index = static_cast<int>(place - list->begin());
  if (place == list->end() || place->position().name() != name) {
    InsertAt(list, index)->mutable_position()->set_name(name);
  }
  return list->Mutable(index);
}

absl::Status Read(const StreamPosition& read, DownpourState* downpour) {
  const TakenStream* const found = FindStream(downpour->stream(), read.name());
  if (found == nullptr || !found->has_taken_by() || found->taken_by() != read.worker()) {
    return absl::FailedPreconditionError("the worker has not taken the stream");
  }
  StreamPosition* const position = TakeNamed(read.name(), downpour)->mutable_position();
  const uint64_t read_again = position->read_again();
  *position = read;
  position->set_read_again(read_again);
  return absl::OkStatus();
}

// Of a session of which shards have so many pushes, those beyond the position are read again: all,
// where the position is another session's.
void Leave(const StreamsLeft& left, TakenStream* stream) {
  stream->clear_taken_by();
  StreamPosition* const position = stream->mutable_position();
  const bool told = position->has_worker() && position->worker() == left.worker() &&
                    position->incarnation() == left.incarnation();
  const uint64_t covered = told ? position->push() : 0;
  if (left.has_pushes() && left.pushes() > covered) {
    position->set_read_again(position->read_again() + left.pushes() - covered);
  }
}

}  // namespace

absl::Status ApplyToStreams(const StateUpdate& update, DownpourState* downpour) {
  switch (update.change_case()) {
    case StateUpdate::kStreamTaken: {
      TakenStream* const stream = TakeNamed(update.stream_taken().name(), downpour);
      stream->set_taken_by(update.stream_taken().worker());
      return absl::OkStatus();
    }
    case StateUpdate::kStreamRead:
      return Read(update.stream_read(), downpour);
    case StateUpdate::kStreamsLeft:
      for (TakenStream& stream : *downpour->mutable_stream()) {
        if (stream.has_taken_by() && stream.taken_by() == update.streams_left().worker()) {
          Leave(update.streams_left(), &stream);
        }
      }
      return absl::OkStatus();
    default:
      return absl::FailedPreconditionError("not of streams");
  }
}

}  // namespace monsoon::internal
