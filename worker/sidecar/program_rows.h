// Rows of tables as a program asks for them and brings them (worker/client/exchange.h).
//
// Thread safety: none.
#pragma once

#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/model/table_info.h"
#include "ps_server/client/row_gradient.h"
#include "worker/client/exchange.h"
#include "worker/downpour/row_sums.h"
#include "worker/sidecar/program.h"

namespace monsoon {

// Answers a kFetchRows by what `fetch` brings. After an error the call is outstanding.
absl::Status AnswerRows(const Message& call, std::span<const TableInfo> tables, Program* program,
                        absl::FunctionRef<absl::Status(std::span<const RowRequest>)> fetch);

// The gradients of rows at the end of a step's fields. InvalidArgument where they are malformed,
// or of tables or rows that the model has not.
absl::Status ReadRows(FieldReader* fields, std::span<const TableInfo> tables, RowSums* rows);

}  // namespace monsoon
