#include "worker/sidecar/program_streams.h"

#include "common/base/status.h"

namespace monsoon {

absl::Status AnswerStream(
    const Message& call, Program* program,
    absl::FunctionRef<absl::StatusOr<StreamPosition>(const std::string& stream)> take) {
  FieldReader fields(call.fields);
  const std::string stream = fields.String();
  if (!fields.ok()) {
    return absl::InvalidArgumentError("the program's question for a stream is malformed");
  }
  const absl::StatusOr<StreamPosition> taken = take(stream);
  if (absl::IsInvalidArgument(taken.status())) {
    program->Refuse(taken.status());
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(taken.status());
  FieldWriter answer;
  answer.Number(static_cast<uint8_t>(taken->has_state() ? 1 : 0));
  answer.String(taken->state());
  answer.Number(taken->worker());
  answer.Number(taken->push());
  answer.Number(taken->read_again());
  program->AnswerStream(answer.bytes());
  return absl::OkStatus();
}

std::vector<StreamPosition> ReadPositions(FieldReader* fields) {
  const auto count = fields->Number<uint32_t>();
  std::vector<StreamPosition> positions;
  for (uint32_t i = 0; i < count && !fields->broken(); ++i) {
    StreamPosition position;
    position.set_name(fields->String());
    position.set_state(fields->String());
    positions.push_back(std::move(position));
  }
  return positions;
}

}  // namespace monsoon
