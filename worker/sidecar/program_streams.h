// What a program and the session say to each other of streams (monsoon_take_stream).
#pragma once

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/checkpoint.pb.h"
#include "worker/client/exchange.h"
#include "worker/sidecar/program.h"

namespace monsoon {

// Answers a kTakeStream by what `take` brings. What is wrong with the program's stream alone
// (InvalidArgument of `take`) it is told, for good. After another error the call is outstanding.
absl::Status AnswerStream(
    const Message& call, Program* program,
    absl::FunctionRef<absl::StatusOr<StreamPosition>(const std::string& stream)> take);

// How far a step has read of streams, which its fields tell.
std::vector<StreamPosition> ReadPositions(FieldReader* fields);

}  // namespace monsoon
