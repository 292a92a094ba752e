#include "ps_server/checkpoint/write_part.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint.h"
#include "common/memory/aligned_floats.h"
#include "common/model/parameter_layout.h"
#include "common/transport/frame/protocol.h"
#include "ps_server/shard/spare_room.h"
#include "ps_server/vector/named_vectors.h"

namespace monsoon {
namespace {

constexpr uint64_t kBesideFloats = 1 << 20;

// Of the largest values of all lines.
uint64_t LargestValuesBytes(const ShardJob& job) {
  uint64_t lines = 0;
  for (uint32_t stripe = 0; stripe < job.stripes().count(); ++stripe) {
    lines += job.vectors().lines(stripe);
  }
  return lines * sizeof(float);
}

// The vectors that `order` names, by their order.
absl::StatusOr<std::vector<std::shared_ptr<const SliceVector>>> FindVectors(
    const ShardJob& job, const CheckpointRequest& order) {
  std::vector<std::shared_ptr<const SliceVector>> vectors;
  for (const std::string& name : order.context().vector()) {
    absl::StatusOr<std::shared_ptr<const SliceVector>> vector = job.vectors().Find(name);
    if (!vector.ok()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "generation ", order.generation(), " cannot be cut: ", vector.status().message()));
    }
    vectors.push_back(*std::move(vector));
  }
  return vectors;
}

double Mebibytes(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

absl::Status CheckRoom(const Storage& storage, const std::string& folder, uint64_t bytes) {
  const absl::StatusOr<uint64_t> free = storage.FreeBytes(folder);
  // A system that does not know lets the writing find out.
  if (free.ok() && *free < bytes + kFreeBytesKept) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "%s: %.1f MiB are free, and a part takes %.1f MiB beside %.0f MiB that stay free", folder,
        Mebibytes(*free), Mebibytes(bytes), Mebibytes(kFreeBytesKept)));
  }
  return absl::OkStatus();
}

// What has become of the job meanwhile.
void Refresh(const ShardJob& job, ShardCheckpoint* content) {
  ShardCheckpoint cut = job.checkpoint().Cut();
  content->mutable_closed()->Swap(cut.mutable_closed());
  content->mutable_staleness()->Swap(cut.mutable_staleness());
  content->set_applied(cut.applied());
  content->set_duplicates(cut.duplicates());
  content->set_refused(cut.refused());
  content->set_staleness_unknown(cut.staleness_unknown());
}

// A part of this life and generation that is good, but was not known to be on the disk:
// the last step of writing it failed.
absl::StatusOr<WrittenPart> AdoptPart(Storage* storage, const std::string& folder,
                                      const ShardCheckpoint& content) {
  ASSIGN_OR_RETURN(const std::vector<ShardPart> parts,
                   ListPartsOf(storage, folder, content.create().shard()));
  for (const ShardPart& found : parts) {
    if (found.generation != content.generation()) {
      continue;
    }
    ASSIGN_OR_RETURN(const std::unique_ptr<PartReader> part,
                     PartReader::Open(storage, found.manifest));
    if (part->manifest().shard_epoch() != content.shard_epoch()) {
      continue;
    }
    RETURN_IF_ERROR(part->Verify());
    RETURN_IF_ERROR(storage->SyncFolder(folder));
    WrittenPart written{
        part->manifest(), {part->content().stripe().begin(), part->content().stripe().end()}, {}};
    *written.rows.mutable_row_session() = part->content().row_session();
    return written;
  }
  return absl::InternalError(
      absl::StrCat(folder, ": generation ", content.generation(), " is there and cannot be found"));
}

// Cuts the stripes, one after the other, to `writer`, what they hold beside floats to
// `records`, and the parameters to `copy` as well, unless it is empty.
absl::Status WriteStripes(const ShardJob& job, const CheckpointRequest& order,
                          const std::vector<std::shared_ptr<const SliceVector>>& vectors,
                          absl::FunctionRef<bool()> go_on, std::span<float> copy,
                          PartWriter* writer, std::vector<StripeRecord>* records) {
  // The first stripe is as long as any.
  const size_t longest = job.stripes().at(0).size();
  const auto slots = static_cast<size_t>(job.stripes().state_slots());
  AlignedFloats parameters = AlignedFloats::Uninitialized(longest);
  AlignedFloats state = AlignedFloats::Uninitialized(longest * slots);
  std::vector<std::span<const float>> cut_vectors(vectors.size());
  for (uint32_t stripe = 0; stripe < job.stripes().count(); ++stripe) {
    if (!go_on()) {
      return absl::CancelledError(absl::StrCat("generation ", order.generation(), " is given up"));
    }
    const size_t floats = job.stripes().at(stripe).size();
    const std::span<float> cut = parameters.span().first(floats);
    const std::span<float> cut_state = state.span().first(floats * slots);
    records->push_back(job.checkpoint().CutStripe(stripe, cut, cut_state));
    StripeRecord record = records->back();
    if (!vectors.empty()) {
      for (size_t i = 0; i < vectors.size(); ++i) {
        cut_vectors[i] = std::span(vectors[i]->data() + stripe * longest, floats);
      }
      const std::vector<float> maxima = job.vectors().Maxima(stripe);
      record.mutable_maximum()->Assign(maxima.begin(), maxima.end());
    }
    if (!copy.empty()) {
      std::ranges::copy(cut, copy.begin() + static_cast<ptrdiff_t>(stripe * longest));
    }
    RETURN_IF_ERROR(writer->AddStripe(cut, cut_state, cut_vectors, std::move(record)));
  }
  return absl::OkStatus();
}

// Of a job with tables: after its stripes.
absl::Status WriteTables(const TableSlice& tables, absl::FunctionRef<bool()> go_on,
                         PartWriter* writer, ShardCheckpoint* sessions) {
  // In this order: what is touched after the sessions were cut, they do not count yet.
  tables.CutSessions(sessions);
  const TableSlice::Touched touched = tables.FindTouched();
  writer->SetTableFloats(touched.floats);
  RETURN_IF_ERROR(tables.CutStripes(
      touched, [&](RowStripeRecord record, std::span<const float> floats) -> absl::Status {
        if (!go_on()) {
          return absl::CancelledError("the generation is given up");
        }
        return writer->AddRowStripe(floats, std::move(record));
      }));
  writer->content()->mutable_row_session()->CopyFrom(sessions->row_session());
  writer->content()->set_rows_applied(sessions->rows_applied());
  return absl::OkStatus();
}

}  // namespace

uint64_t PartBytes(const ShardJob& job, int vectors) {
  uint64_t floats = 0;
  for (uint32_t stripe = 0; stripe < job.stripes().count(); ++stripe) {
    floats += job.stripes().at(stripe).size();
  }
  const auto copies = static_cast<uint64_t>(1 + job.stripes().state_slots() + vectors);
  const uint64_t rows = job.tables() == nullptr ? 0 : job.tables()->TouchedFloats();
  return rows * sizeof(float) + floats * sizeof(float) * copies +
         (vectors > 0 ? LargestValuesBytes(job) : 0) + kBesideFloats;
}

absl::StatusOr<WrittenPart> WritePart(Storage* storage, const std::string& state_dir, ShardJob& job,
                                      const CheckpointRequest& order,
                                      absl::FunctionRef<absl::Status()> check_owner,
                                      absl::FunctionRef<bool()> go_on) {
  ASSIGN_OR_RETURN(const ParameterLayout layout, ParameterLayout::Create(job.request().model()));
  ASSIGN_OR_RETURN(const std::vector<std::shared_ptr<const SliceVector>> vectors,
                   FindVectors(job, order));
  const std::string folder = JobFolder(state_dir, job.request().job(), job.request().job_term());
  RETURN_IF_ERROR(storage->MakeFolder(folder));
  RETURN_IF_ERROR(CheckRoom(*storage, folder, PartBytes(job, order.context().vector_size())));
  ShardCheckpoint content = job.checkpoint()->Cut();
  content.set_generation(order.generation());
  *content.mutable_context() = order.context();
  const absl::StatusOr<std::unique_ptr<PartWriter>> created =
      PartWriter::Create(storage, folder, layout, content);
  if (absl::IsAlreadyExists(created.status())) {
    return AdoptPart(storage, folder, content);
  }
  RETURN_IF_ERROR(created.status());
  PartWriter* const writer = created->get();
  WrittenPart part;
  const auto write = [&](std::span<float> copy) {
    // All stripes are of one write, though the disk is written between them.
    const SpareRoom::CutScope one_write(job.spare());
    return WriteStripes(job, order, vectors, go_on, copy, writer, &part.stripes);
  };
  if (order.context().to_be_tested()) {
    job.vectors()->DropVector(kTestedVector);
    RETURN_IF_ERROR(job.vectors()->RestoreVector(kTestedVector, write));
  } else {
    RETURN_IF_ERROR(write({}));
  }
  if (job.tables() != nullptr) {
    RETURN_IF_ERROR(WriteTables(*job.tables(), go_on, writer, &part.rows));
  }
  Refresh(job, writer->content());
  ASSIGN_OR_RETURN(part.manifest, writer->Finish([&] { return check_owner(); }));
  return part;
}

}  // namespace monsoon
