#include "worker/client/program_rows.h"

#include <cstring>
#include <utility>

namespace monsoon {
namespace {

// Of a message beside rows.
constexpr size_t kBesideRows = 4096;

}  // namespace

Result ProgramRows::Check(size_t table, const uint64_t* rows, size_t count) const {
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

void ProgramRows::BeginFetch(size_t table, const uint64_t* rows, size_t count, float* values) {
  FieldWriter fields;
  fields.Number(static_cast<uint32_t>(table));
  fields.Number(static_cast<uint64_t>(count));
  fields.Bytes(rows, count * sizeof(uint64_t));
  fetch_ = {fields.bytes(), values, count * tables_[table].columns * sizeof(float), false};
}

void ProgramRows::WriteFetch(FieldWriter* fields) const {
  fields->Bytes(fetch_->request.data(), fetch_->request.size());
}

bool ProgramRows::TakeFetched(const Message& answer) {
  if (!fetch_ || answer.fields.size() != fetch_->bytes) {
    return false;
  }
  std::memcpy(fetch_->values, answer.fields.data(), fetch_->bytes);
  fetch_->done = true;
  return true;
}

Result ProgramRows::AddGradient(size_t table, const uint64_t* rows, size_t count,
                                const float* values) {
  if (Result known = Check(table, rows, count); !known.ok() || count == 0) {
    return known;
  }
  FieldWriter fields;
  fields.Number(static_cast<uint32_t>(table));
  fields.Number(static_cast<uint64_t>(count));
  fields.Bytes(rows, count * sizeof(uint64_t));
  fields.Bytes(values, count * tables_[table].columns * sizeof(float));
  if (gradients_.size() + fields.bytes().size() + kBesideRows > kMaxMessageBytes) {
    return Invalid("the rows of one step take over " + std::to_string(kMaxMessageBytes >> 20) +
                   " MiB: make its batches smaller");
  }
  gradients_ += fields.bytes();
  ++pieces_;
  return {};
}

void ProgramRows::TakeGradients(FieldWriter* fields) {
  fields->Number(pieces_);
  fields->Bytes(gradients_.data(), gradients_.size());
  ForgetGradients();
}

void ProgramRows::ForgetGradients() {
  gradients_.clear();
  pieces_ = 0;
}

}  // namespace monsoon
