#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <climits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/fail_point.h"
#include "common/base/status.h"
#include "common/base/xxh3.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/part_plan.h"
#include "common/checkpoint/part_reader.h"
#include "common/safetensors/safetensors_file.h"
#include "common/storage/file_path.h"

namespace monsoon {
namespace {

// Nothing in a part stays open to chance: equal content has equal bytes.
std::string Serialised(const ShardCheckpoint& content) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    content.SerializeToCodedStream(&coded);
  }
  return bytes;
}

class PartWriterImpl : public PartWriter {
 public:
  PartWriterImpl(Storage* storage, const std::string& folder, PartPlan plan,
                 ShardCheckpoint content)
      : storage_(storage),
        folder_(folder),
        plan_(std::move(plan)),
        content_(std::move(content)),
        manifest_(ManifestOf(content_)),
        table_floats_(plan_.tables.size(), 0) {
    manifest_.set_format_version(kCheckpointFormat);
    manifest_.set_file(PartName::Of(manifest_).Text(kPartEnding));
  }

  ~PartWriterImpl() override {
    if (file_.has_value()) {
      file_.reset();
      storage_->Remove(Temporary(manifest_.file())).IgnoreError();
    }
  }

  absl::Status Begin() {
    RETURN_IF_ERROR(storage_->MakeFolder(folder_));
    RETURN_IF_ERROR(RemoveLeftover());
    // The sizes of the record and of the checksums are known at the end.
    ASSIGN_OR_RETURN(
        SafetensorsWriter file,
        SafetensorsWriter::Create(storage_, Temporary(manifest_.file()), plan_.Tensors(),
                                  PartMetadata(manifest_), plan_.LateTensors()));
    file_.emplace(std::move(file));
    MONSOON_FAIL_POINT_STATUS("checkpoint.part_created");
    return absl::OkStatus();
  }

  using PartWriter::AddStripe;
  absl::Status AddStripe(std::span<const float> parameters, std::span<const float> state,
                         std::span<const std::span<const float>> vectors,
                         StripeRecord record) override {
    const uint32_t index = static_cast<uint32_t>(content_.stripe_size());
    CHECK_LT(index, plan_.map.stripes(plan_.shard));
    const Slice stripe = plan_.map.stripe(plan_.shard, index);
    CHECK_EQ(parameters.size(), stripe.size());
    CHECK_EQ(state.size(), stripe.size() * plan_.state_slots);
    CHECK_EQ(vectors.size(), plan_.vectors.size());
    for (const std::span<const float> vector : vectors) {
      CHECK_EQ(vector.size(), stripe.size());
    }
    *content_.add_stripe() = std::move(record);
    if (broken_.ok()) {
      broken_ = AppendStripe(stripe, parameters, state, vectors);
    }
    if (broken_.ok() && index == plan_.map.stripes(plan_.shard) / 2) {
      broken_ = NoteHalfWritten();
    }
    return broken_;
  }

  void SetTableFloats(std::vector<uint64_t> floats) override {
    CHECK_EQ(floats.size(), plan_.tables.size());
    table_floats_ = std::move(floats);
  }

  absl::Status AddRowStripe(std::span<const float> floats, RowStripeRecord record) override {
    CHECK_LT(record.table(), plan_.tables.size());
    CHECK_EQ(floats.size(), plan_.RowStripeFloats(record));
    if (broken_.ok()) {
      broken_ = BeginTables(record.table() + 1);
    }
    if (broken_.ok()) {
      broken_ = file_->Append(plan_.TableTensor(record.table()), std::as_bytes(floats));
    }
    *content_.add_row_stripe() = std::move(record);
    return broken_;
  }

  ShardCheckpoint* content() override { return &content_; }

  absl::StatusOr<CheckpointManifest> Finish(
      const std::function<absl::Status()>& still_owner) override {
    absl::Status status = broken_;
    if (status.ok()) {
      status = WriteFile();
    }
    if (status.ok()) {
      status = Publish(still_owner);
    }
    if (!status.ok()) {
      Withdraw();
      return status;
    }
    return manifest_;
  }

 private:
  // The tensors of the tables before `end` have their sizes.
  absl::Status BeginTables(size_t end) {
    for (; tables_begun_ < end; ++tables_begun_) {
      RETURN_IF_ERROR(
          file_->SetSize(plan_.TableTensor(tables_begun_), table_floats_[tables_begun_]));
    }
    return absl::OkStatus();
  }

  absl::Status NoteHalfWritten() {
    MONSOON_FAIL_POINT_STATUS("checkpoint.part_half_written");
    return absl::OkStatus();
  }

  absl::Status AppendStripe(const Slice& stripe, std::span<const float> parameters,
                            std::span<const float> state,
                            std::span<const std::span<const float>> vectors) {
    while (piece_ < plan_.pieces.size() && plan_.pieces[piece_].range.begin < stripe.end) {
      const Slice& piece = plan_.pieces[piece_].range;
      const uint64_t begin = std::max(piece.begin, stripe.begin);
      const uint64_t end = std::min(piece.end, stripe.end);
      const auto append = [&](size_t tensor, std::span<const float> floats) {
        return file_->Append(tensor,
                             std::as_bytes(floats.subspan(begin - stripe.begin, end - begin)));
      };
      RETURN_IF_ERROR(append(piece_, parameters));
      for (size_t slot = 0; slot < plan_.state_slots; ++slot) {
        RETURN_IF_ERROR(append(plan_.StateTensor(slot) + piece_,
                               state.subspan(slot * stripe.size(), stripe.size())));
      }
      for (size_t i = 0; i < vectors.size(); ++i) {
        RETURN_IF_ERROR(append(plan_.VectorTensor(i) + piece_, vectors[i]));
      }
      if (piece.end > stripe.end) {
        break;  // goes on in the next stripe
      }
      ++piece_;
    }
    return absl::OkStatus();
  }

  std::string Path(const std::string& name) const { return InFolder(folder_, name); }
  std::string Temporary(const std::string& name) const {
    return Path(absl::StrCat(kTemporaryPrefix, name));
  }
  std::string ManifestName() const { return PartName::Of(manifest_).Text(kManifestEnding); }

  // A part of this name that is good stays; what is left of a failed one goes.
  absl::Status RemoveLeftover() {
    const std::string path = Path(ManifestName());
    const absl::Status found = PartReader::Open(storage_, path).status();
    if (found.ok()) {
      return absl::AlreadyExistsError(absl::StrCat(path, ": there is such a part"));
    }
    if (!absl::IsNotFound(found) && !absl::IsDataLoss(found)) {
      return found;
    }
    return storage_->Remove(path);
  }

  // All of the file, synced, under its temporary name.
  absl::Status WriteFile() {
    CHECK_EQ(static_cast<uint32_t>(content_.stripe_size()), plan_.map.stripes(plan_.shard));
    const std::string path = Temporary(manifest_.file());
    if (content_.ByteSizeLong() > INT_MAX) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, ": a record of ", content_.ByteSizeLong(), " bytes is too long"));
    }
    RETURN_IF_ERROR(BeginTables(plan_.tables.size()));
    const size_t record_tensor = plan_.RecordTensor();
    const std::string record = Serialised(content_);
    RETURN_IF_ERROR(file_->SetSize(record_tensor, record.size()));
    RETURN_IF_ERROR(file_->Append(record_tensor, std::as_bytes(std::span(record))));
    std::vector<uint64_t> checksums;
    for (size_t tensor = 0; tensor <= record_tensor; ++tensor) {
      checksums.push_back(file_->Checksum(tensor));
    }
    RETURN_IF_ERROR(file_->SetSize(record_tensor + 1, checksums.size() + 1));
    const std::string head = file_->Head();
    Xxh3 hash;
    hash.Add(std::as_bytes(std::span(head)));
    hash.Add(std::as_bytes(std::span(checksums)));
    checksums.push_back(hash.Digest());
    RETURN_IF_ERROR(file_->Append(record_tensor + 1, std::as_bytes(std::span(checksums))));
    MONSOON_FAIL_POINT_STATUS("checkpoint.part_written");
    ASSIGN_OR_RETURN(const uint64_t bytes, file_->Finish());
    MONSOON_FAIL_POINT_STATUS("checkpoint.part_synced");
    manifest_.set_bytes(bytes);
    manifest_.set_checksum(checksums.back());
    return absl::OkStatus();
  }

  absl::Status Publish(const std::function<absl::Status()>& still_owner) {
    RETURN_IF_ERROR(Rename(manifest_.file(), still_owner));
    MONSOON_FAIL_POINT_STATUS("checkpoint.part_renamed");
    RETURN_IF_ERROR(storage_->SyncFolder(folder_));
    MONSOON_FAIL_POINT_STATUS("checkpoint.part_folder_synced");
    // What the disk says, not what we remember.
    ASSIGN_OR_RETURN(const std::unique_ptr<PartReader> part,
                     OpenPart(storage_, folder_, manifest_));
    RETURN_IF_ERROR(part->Verify());
    MONSOON_FAIL_POINT_STATUS("checkpoint.part_verified");

    manifest_.set_written_ms(absl::ToUnixMillis(Clock::Real()->WallTime()));
    const std::string name = ManifestName();
    const std::string text = ManifestText(manifest_);
    {
      ASSIGN_OR_RETURN(const std::unique_ptr<StorageFile> file, storage_->Create(Temporary(name)));
      MONSOON_FAIL_POINT_STATUS("checkpoint.manifest_created");
      RETURN_IF_ERROR(file->WriteAt(0, std::as_bytes(std::span(text))));
      MONSOON_FAIL_POINT_STATUS("checkpoint.manifest_written");
      RETURN_IF_ERROR(file->Sync());
      MONSOON_FAIL_POINT_STATUS("checkpoint.manifest_synced");
    }
    RETURN_IF_ERROR(Rename(name, still_owner));
    MONSOON_FAIL_POINT_STATUS("checkpoint.manifest_renamed");
    RETURN_IF_ERROR(storage_->SyncFolder(folder_));
    MONSOON_FAIL_POINT_STATUS("checkpoint.manifest_folder_synced");
    ASSIGN_OR_RETURN(const std::string read, storage_->ReadAll(Path(name), kMaxManifestBytes));
    if (read != text) {
      return absl::DataLossError(absl::StrCat(Path(name), ": it reads back as another"));
    }
    file_.reset();
    return absl::OkStatus();
  }

  // Gives the temporary file its name, which is on the disk once the folder is synced.
  absl::Status Rename(const std::string& name, const std::function<absl::Status()>& still_owner) {
    RETURN_IF_ERROR(still_owner());
    return storage_->Rename(Temporary(name), Path(name));
  }

  // The manifest goes first: without it the file is no part.
  void Withdraw() {
    file_.reset();
    for (const std::string& name : {ManifestName(), manifest_.file()}) {
      storage_->Remove(Path(name)).IgnoreError();
      storage_->Remove(Temporary(name)).IgnoreError();
    }
    storage_->SyncFolder(folder_).IgnoreError();
  }

  Storage* const storage_;
  const std::string folder_;
  const PartPlan plan_;
  ShardCheckpoint content_;
  CheckpointManifest manifest_;
  std::optional<SafetensorsWriter> file_;  // until Finish
  size_t piece_ = 0;                       // the first that is not whole
  std::vector<uint64_t> table_floats_;     // [table]
  size_t tables_begun_ = 0;
  absl::Status broken_;  // the first error of AddStripe
};

}  // namespace

absl::StatusOr<std::unique_ptr<PartWriter>> PartWriter::Create(Storage* storage,
                                                               const std::string& folder,
                                                               const ParameterLayout& layout,
                                                               ShardCheckpoint content) {
  CHECK_EQ(content.stripe_size(), 0);
  content.mutable_create()->clear_term();
  auto plan = PartPlan::Create(content);
  RETURN_IF_ERROR(Annotate(plan.status(), absl::StrCat("a part of job ", content.create().job())));
  CHECK_EQ(plan->layout.Hash(), layout.Hash());
  auto writer =
      std::make_unique<PartWriterImpl>(storage, folder, *std::move(plan), std::move(content));
  RETURN_IF_ERROR(writer->Begin());
  return writer;
}

}  // namespace monsoon
