// Replica: rows of tables.
#include <cstring>
#include <utility>

#include "worker/client/replica.h"

namespace monsoon {
namespace {

Result Invalid(std::string message) { return {MONSOON_INVALID_ARGUMENT, std::move(message)}; }

// Of a message beside rows.
constexpr size_t kBesideRows = 4096;

}  // namespace

Result Replica::CheckRows(size_t table, const uint64_t* rows, size_t count) const {
  const std::string name = "table " + std::to_string(table);
  if (table >= tables_.size()) {
    return Invalid(name + ": the model has " + std::to_string(tables_.size()) + " tables");
  }
  for (size_t i = 0; i < count; ++i) {
    if (rows[i] >= tables_[table].rows) {
      return Invalid(name + ": row " + std::to_string(rows[i]) + " of " +
                     std::to_string(tables_[table].rows));
    }
  }
  const size_t bytes = count * (sizeof(uint64_t) + tables_[table].columns * sizeof(float));
  if (bytes + kBesideRows > kMaxMessageBytes) {
    return Invalid(name + ": " + std::to_string(count) + " rows take " +
                   std::to_string(bytes >> 20) + " MiB, and one call takes " +
                   std::to_string(kMaxMessageBytes >> 20) + ": give them in parts");
  }
  return {};
}

Result Replica::FetchRows(size_t table, const uint64_t* rows, size_t count, float* values,
                          monsoon_event* event) {
  *event = monsoon_event{};
  if (Result ready = CheckReady(); !ready.ok()) {
    return ready;
  }
  if (asked_) {
    return {MONSOON_FAILED_PRECONDITION,
            "an earlier call was interrupted: go on with monsoon_wait, or leave"};
  }
  if (Result known = CheckRows(table, rows, count); !known.ok() || count == 0) {
    return known;
  }
  FieldWriter fields;
  fields.Number(static_cast<uint32_t>(table));
  fields.Number(static_cast<uint64_t>(count));
  fields.Bytes(rows, count * sizeof(uint64_t));
  row_fetch_ = {fields.bytes(), values, count * tables_[table].columns * sizeof(float), false};
  return FinishRows(event);
}

Result Replica::FinishRows(monsoon_event* event) {
  while (!row_fetch_->done) {
    FieldWriter fields;
    fields.Bytes(row_fetch_->request.data(), row_fetch_->request.size());
    monsoon_event told{};
    const Result asked = Ask(MessageKind::kFetchRows, fields, &told);
    event->kind = told.kind != MONSOON_GO ? told.kind : event->kind;
    event->parameters_changed |= told.parameters_changed;
    event->discarded |= told.discarded;
    if (!asked.ok()) {
      if (asked.code != MONSOON_INTERRUPTED) {
        row_fetch_.reset();
      }
      return asked;
    }
  }
  row_fetch_.reset();
  return {};
}

Result Replica::TakeRows(const Message& answer) {
  if (!row_fetch_ || answer.fields.size() != row_fetch_->bytes) {
    return Broken(MONSOON_INTERNAL, "the sidecar's answer is malformed");
  }
  std::memcpy(row_fetch_->values, answer.fields.data(), row_fetch_->bytes);
  row_fetch_->done = true;
  return {};
}

Result Replica::PushRows(size_t table, const uint64_t* rows, size_t count, const float* values) {
  if (local_steps_ > 0) {
    return {MONSOON_FAILED_PRECONDITION,
            "rows of tables are pushed with gradients, and this job pushes differences of "
            "local steps"};
  }
  if (Result known = CheckRows(table, rows, count); !known.ok() || count == 0) {
    return known;
  }
  FieldWriter fields;
  fields.Number(static_cast<uint32_t>(table));
  fields.Number(static_cast<uint64_t>(count));
  fields.Bytes(rows, count * sizeof(uint64_t));
  fields.Bytes(values, count * tables_[table].columns * sizeof(float));
  if (rows_to_push_.size() + fields.bytes().size() + kBesideRows > kMaxMessageBytes) {
    return Invalid("the rows of one step take over " + std::to_string(kMaxMessageBytes >> 20) +
                   " MiB: make its batches smaller");
  }
  rows_to_push_ += fields.bytes();
  ++row_pieces_;
  return {};
}

}  // namespace monsoon
