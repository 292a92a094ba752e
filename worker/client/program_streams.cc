#include "worker/client/program_streams.h"

#include <algorithm>
#include <utility>

namespace monsoon {
namespace {

Result CheckName(std::string_view name) {
  const bool printable =
      std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; });
  return !name.empty() && name.size() <= kMaxStreamName && printable
             ? Result()
             : Invalid("a stream's name has 1 to " + std::to_string(kMaxStreamName) +
                       " printable characters");
}

}  // namespace

Result ProgramStreams::BeginTake(std::string_view name) {
  Result known = CheckName(name);
  if (known.ok()) {
    taking_ = name;
    told_ = {};
  }
  return known;
}

bool ProgramStreams::TakeTaken(const Message& answer) {
  FieldReader fields(answer.fields);
  const bool was_read = fields.Number<uint8_t>() != 0;
  state_ = fields.String();
  told_.worker = fields.Number<uint32_t>();
  told_.push = fields.Number<uint64_t>();
  told_.read_again = fields.Number<uint64_t>();
  told_.was_read = was_read ? 1 : 0;
  taking_.clear();
  return fields.ok();
}

monsoon_stream ProgramStreams::told() const {
  monsoon_stream told = told_;
  told.state = told.was_read != 0 ? state_.data() : nullptr;
  told.bytes = told.was_read != 0 ? state_.size() : 0;
  return told;
}

Result ProgramStreams::Note(std::string_view name, std::string_view state) {
  if (Result known = CheckName(name); !known.ok()) {
    return known;
  }
  if (state.size() > kMaxStreamState) {
    return Invalid("the state of stream " + std::string(name) + " has " +
                   std::to_string(state.size()) + " bytes; at most " +
                   std::to_string(kMaxStreamState) + " are kept with the job");
  }
  noted_.insert_or_assign(std::string(name), std::string(state));
  return {};
}

void ProgramStreams::CountStep() {
  for (auto& [name, state] : noted_) {
    counted_.insert_or_assign(name, std::move(state));
  }
  noted_.clear();
}

void ProgramStreams::TakeCounted(FieldWriter* fields) {
  fields->Number(static_cast<uint32_t>(counted_.size()));
  for (const auto& [name, state] : counted_) {
    fields->String(name);
    fields->String(state);
  }
  counted_.clear();
}

void ProgramStreams::Forget() {
  noted_.clear();
  counted_.clear();
}

}  // namespace monsoon
