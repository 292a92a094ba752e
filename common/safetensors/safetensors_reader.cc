#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/safetensors/safetensors_file.h"
#include "common/safetensors/safetensors_header.h"

namespace monsoon {
namespace {

absl::Status Unusable(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(path, " is not a usable safetensors file: ", why));
}

bool IsReadable(const std::string& type) {
  for (const TensorType known : {TensorType::kF32, TensorType::kU8, TensorType::kU64}) {
    if (type == NameOf(known)) {
      return true;
    }
  }
  return false;
}

}  // namespace

class SafetensorsReader::Impl {
 public:
  Impl(std::string path, std::unique_ptr<StorageReader> file)
      : path_(std::move(path)), file_(std::move(file)) {}

  absl::Status ReadHead() {
    const uint64_t bytes = file_->bytes();
    if (bytes < kSafetensorsLengthBytes) {
      return Unusable(path_, absl::StrCat("it has ", bytes, " bytes"));
    }
    head_.resize(kSafetensorsLengthBytes);
    RETURN_IF_ERROR(file_->ReadAt(0, std::as_writable_bytes(std::span(head_))));
    uint64_t length = 0;
    for (uint64_t byte = 0; byte < kSafetensorsLengthBytes; ++byte) {
      length |= uint64_t{static_cast<uint8_t>(head_[byte])} << (8 * byte);
    }
    if (length > kSafetensorsMaxHeaderBytes || length > bytes - kSafetensorsLengthBytes) {
      return Unusable(path_, absl::StrCat("a header of ", length, " bytes in a file of ", bytes));
    }
    head_.resize(kSafetensorsLengthBytes + length);
    RETURN_IF_ERROR(
        file_->ReadAt(kSafetensorsLengthBytes,
                      std::as_writable_bytes(std::span(head_)).subspan(kSafetensorsLengthBytes)));
    auto header = ParseSafetensorsHeader(absl::string_view(head_).substr(kSafetensorsLengthBytes),
                                         bytes - head_.size());
    if (!header.ok()) {
      return Unusable(path_, header.status().message());
    }
    metadata_ = std::move(header->metadata);
    for (PlacedTensor& placed : header->tensors) {
      by_name_[placed.name] = tensors_.size();
      tensors_.push_back({.name = std::move(placed.name),
                          .type = std::move(placed.type),
                          .shape = std::move(placed.shape),
                          .offset = head_.size() + placed.begin,
                          .bytes = placed.end - placed.begin});
    }
    return absl::OkStatus();
  }

  const std::string& path() const { return path_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& head() const { return head_; }
  uint64_t file_bytes() const { return file_->bytes(); }

  const Tensor* Find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &tensors_[found->second];
  }

  absl::Status Read(const Tensor& tensor, uint64_t begin, std::span<std::byte> out) const {
    if (!IsReadable(tensor.type)) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": tensor \"", tensor.name,
                                                     "\" is of type ", tensor.type,
                                                     ", which is not read here"));
    }
    CHECK_LE(begin, tensor.bytes);
    CHECK_LE(out.size(), tensor.bytes - begin);
    return file_->ReadAt(tensor.offset + begin, out);
  }

 private:
  const std::string path_;
  const std::unique_ptr<StorageReader> file_;
  std::string head_;
  std::vector<Tensor> tensors_;
  std::map<std::string, size_t> by_name_;
  std::map<std::string, std::string> metadata_;
};

absl::StatusOr<SafetensorsReader> SafetensorsReader::Open(const Storage* storage,
                                                          const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<StorageReader> file, storage->Open(path));
  auto impl = std::make_unique<Impl>(path, std::move(file));
  RETURN_IF_ERROR(impl->ReadHead());
  return SafetensorsReader(std::move(impl));
}

SafetensorsReader::SafetensorsReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SafetensorsReader::SafetensorsReader(SafetensorsReader&&) noexcept = default;
SafetensorsReader::~SafetensorsReader() = default;

const std::string& SafetensorsReader::path() const { return impl_->path(); }
const std::vector<SafetensorsReader::Tensor>& SafetensorsReader::tensors() const {
  return impl_->tensors();
}
const SafetensorsReader::Tensor* SafetensorsReader::Find(const std::string& name) const {
  return impl_->Find(name);
}
const std::map<std::string, std::string>& SafetensorsReader::metadata() const {
  return impl_->metadata();
}
const std::string& SafetensorsReader::head() const { return impl_->head(); }
uint64_t SafetensorsReader::file_bytes() const { return impl_->file_bytes(); }
absl::Status SafetensorsReader::Read(const Tensor& tensor, uint64_t begin,
                                     std::span<std::byte> out) const {
  return impl_->Read(tensor, begin, out);
}

}  // namespace monsoon
