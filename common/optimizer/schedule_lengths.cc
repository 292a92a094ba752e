#include "common/optimizer/schedule_lengths.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace monsoon {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// A length, and where it stands.
struct Found {
  ScheduleLength length;
  const Message* message = nullptr;
  const FieldDescriptor* pushes = nullptr;
};

// Of `message`, which stands at `path`, the fields of these names, where it has them.
void Add(const Message& message, const std::string& path, const char* pushes, const char* share,
         bool needed, bool whole, std::vector<Found>* found) {
  const FieldDescriptor* const number = message.GetDescriptor()->FindFieldByName(pushes);
  const FieldDescriptor* const part = message.GetDescriptor()->FindFieldByName(share);
  if (number == nullptr || part == nullptr) {
    return;
  }
  found->push_back({{.name = absl::StrCat(path, pushes),
                     .share_name = absl::StrCat(path, share),
                     .pushes = message.GetReflection()->GetUInt64(message, number),
                     .share = message.GetReflection()->GetDouble(message, part),
                     .needed = needed,
                     .whole = whole},
                    &message,
                    number});
}

std::vector<Found> Find(const Schedule& schedule) {
  std::vector<Found> found;
  const FieldDescriptor* const kind = Schedule::GetReflection()->GetOneofFieldDescriptor(
      schedule, Schedule::descriptor()->FindOneofByName("kind"));
  if (kind != nullptr) {
    const Message& message = Schedule::GetReflection()->GetMessage(schedule, kind);
    const std::string path = absl::StrCat(kind->name(), ".");
    // The rate goes on falling with the root for ever.
    const bool ends = kind->number() != Schedule::kInverseRootFieldNumber;
    Add(message, path, "pushes", "share", /*needed=*/true, /*whole=*/ends, &found);
    Add(message, path, "every_pushes", "every_share", /*needed=*/true, /*whole=*/false, &found);
  }
  for (int i = 0; i < schedule.points().point_size(); ++i) {
    Add(schedule.points().point(i), absl::StrCat("points.point[", i, "]."), "pushes", "share",
        /*needed=*/false, /*whole=*/i + 1 == schedule.points().point_size(), &found);
  }
  Add(schedule, "", "warm_up_pushes", "warm_up_share", /*needed=*/false, /*whole=*/false, &found);
  return found;
}

}  // namespace

std::vector<ScheduleLength> LengthsOf(const Schedule& schedule) {
  std::vector<ScheduleLength> lengths;
  for (Found& found : Find(schedule)) {
    lengths.push_back(std::move(found.length));
  }
  return lengths;
}

void SetLengths(const std::function<uint64_t(const ScheduleLength&)>& pushes_of,
                Schedule* schedule) {
  for (const Found& found : Find(*schedule)) {
    // It is a part of *schedule, which the caller may change.
    Message* const message = const_cast<Message*>(found.message);
    message->GetReflection()->SetUInt64(message, found.pushes, pushes_of(found.length));
  }
}

}  // namespace monsoon
