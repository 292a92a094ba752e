// Lists of messages in rising order, of their `worker` or their stream's name: what a map would be,
// with the same bytes for the same entries.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_field.h"

namespace monsoon {

// A new entry before `index`.
template <typename Entry>
Entry* InsertAt(google::protobuf::RepeatedPtrField<Entry>* list, int index) {
  list->Add();
  for (int i = list->size() - 1; i > index; --i) {
    list->SwapElements(i, i - 1);
  }
  return list->Mutable(index);
}

// The entry of `worker`; null when there is none.
template <typename Entry>
const Entry* FindWorker(const google::protobuf::RepeatedPtrField<Entry>& list, uint32_t worker) {
  const auto found = std::ranges::lower_bound(list, worker, {}, &Entry::worker);
  return found != list.end() && found->worker() == worker ? &*found : nullptr;
}

// The entry of `worker`, added at its place if there was none.
template <typename Entry>
Entry* TakeWorker(google::protobuf::RepeatedPtrField<Entry>* list, uint32_t worker) {
  const auto found = std::ranges::lower_bound(*list, worker, {}, &Entry::worker);
  const auto index = static_cast<int>(found - list->begin());
  if (found == list->end() || found->worker() != worker) {
    InsertAt(list, index)->set_worker(worker);
  }
  return list->Mutable(index);
}

// False when there is none.
template <typename Entry>
bool RemoveWorker(google::protobuf::RepeatedPtrField<Entry>* list, uint32_t worker) {
  const auto found = std::ranges::lower_bound(*list, worker, {}, &Entry::worker);
  if (found == list->end() || found->worker() != worker) {
    return false;
  }
  list->erase(found);
  return true;
}

// Where the stream of that name stands, or is to be inserted.
template <typename Stream>
auto PlaceOfStream(const google::protobuf::RepeatedPtrField<Stream>& list, absl::string_view name) {
  return std::ranges::lower_bound(list, name, {}, [](const Stream& stream) -> absl::string_view {
    return stream.position().name();
  });
}

// The stream of that name; null when there is none.
template <typename Stream>
const Stream* FindStream(const google::protobuf::RepeatedPtrField<Stream>& list,
                         absl::string_view name) {
  const auto found = PlaceOfStream(list, name);
  return found != list.end() && found->position().name() == name ? &*found : nullptr;
}

}  // namespace monsoon
