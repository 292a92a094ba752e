#include <bit>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/base/xxh3.h"
#include "common/safetensors/safetensors_file.h"
#include "common/safetensors/safetensors_header.h"

namespace monsoon {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr uint64_t kAlignment = 64;

absl::Status CheckNames(const std::vector<TensorSpec>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  const auto readable = [](const std::string& text) {
    return FindInvalidUtf8(text) == absl::string_view::npos;
  };
  std::set<std::string> names = {kSafetensorsMetadata};
  for (const TensorSpec& tensor : tensors) {
    if (!readable(tensor.name)) {
      return absl::InvalidArgumentError("a tensor's name is not UTF-8");
    }
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("a tensor cannot be called \"", tensor.name, "\": the name is taken"));
    }
  }
  for (const auto& [key, value] : metadata) {
    if (!readable(key) || !readable(value)) {
      return absl::InvalidArgumentError("metadata are not UTF-8");
    }
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t BytesOf(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return 4;
    case TensorType::kU8:
      return 1;
    case TensorType::kU64:
      return 8;
  }
  return 0;
}

const char* NameOf(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return "F32";
    case TensorType::kU8:
      return "U8";
    case TensorType::kU64:
      return "U64";
  }
  return "";
}

uint64_t TensorSpec::bytes() const {
  uint64_t bytes = BytesOf(type);
  for (const uint64_t extent : shape) {
    bytes *= extent;
  }
  return bytes;
}

class SafetensorsWriter::Impl {
 public:
  Impl(std::vector<TensorSpec> specs, std::map<std::string, std::string> metadata, size_t late)
      : metadata_(std::move(metadata)) {
    CHECK_LE(late, specs.size());
    first_late_ = specs.size() - late;
    for (TensorSpec& spec : specs) {
      tensors_.push_back({.spec = std::move(spec)});
    }
    Place(0);
    // The longest that the header may get is set aside.
    SafetensorsHeader widest = Header();
    for (size_t i = first_late_; i < tensors_.size(); ++i) {
      CHECK_EQ(tensors_[i].spec.shape.size(), 1u);
      widest.tensors[i].shape = {UINT64_MAX};
      widest.tensors[i].begin = widest.tensors[i].end = UINT64_MAX;
    }
    const uint64_t head = kSafetensorsLengthBytes + SafetensorsHeaderText(widest).size();
    head_bytes_ = (head + kAlignment - 1) / kAlignment * kAlignment;
  }

  void Open(std::unique_ptr<StorageFile> file) { file_ = std::move(file); }
  uint64_t head_bytes() const { return head_bytes_; }

  void SetSize(size_t tensor, uint64_t size) {
    CHECK(tensor >= first_late_ && tensor < tensors_.size());
    for (size_t i = tensor; i < tensors_.size(); ++i) {
      CHECK_EQ(tensors_[i].written, 0u);
    }
    tensors_[tensor].spec.shape = {size};
    Place(tensor);
  }

  absl::Status Append(size_t index, std::span<const std::byte> bytes) {
    CHECK_LT(index, tensors_.size());
    Tensor& tensor = tensors_[index];
    CHECK_LE(bytes.size(), tensor.spec.bytes() - tensor.written);
    tensor.hash.Add(bytes);
    RETURN_IF_ERROR(file_->WriteAt(head_bytes_ + tensor.begin + tensor.written, bytes));
    tensor.written += bytes.size();
    return absl::OkStatus();
  }

  uint64_t Checksum(size_t index) const {
    CHECK_LT(index, tensors_.size());
    const Tensor& tensor = tensors_[index];
    CHECK_EQ(tensor.written, tensor.spec.bytes());
    return tensor.hash.Digest();
  }

  std::string Head() const {
    std::string text = SafetensorsHeaderText(Header());
    CHECK_LE(text.size(), head_bytes_ - kSafetensorsLengthBytes);
    text.resize(head_bytes_ - kSafetensorsLengthBytes, ' ');
    std::string head;
    for (uint64_t byte = 0; byte < kSafetensorsLengthBytes; ++byte) {
      head.push_back(static_cast<char>(text.size() >> (8 * byte)));
    }
    return head + text;
  }

  absl::StatusOr<uint64_t> Finish() {
    uint64_t bytes = head_bytes_;
    for (const Tensor& tensor : tensors_) {
      CHECK_EQ(tensor.written, tensor.spec.bytes());
      bytes += tensor.written;
    }
    const std::string head = Head();
    RETURN_IF_ERROR(file_->WriteAt(0, std::as_bytes(std::span(head))));
    RETURN_IF_ERROR(file_->Sync());
    return bytes;
  }

 private:
  struct Tensor {
    TensorSpec spec;
    uint64_t begin = 0;  // after the head
    uint64_t written = 0;
    Xxh3 hash;
  };

  // Of `first` and all after it.
  void Place(size_t first) {
    for (size_t i = first; i < tensors_.size(); ++i) {
      tensors_[i].begin = i == 0 ? 0 : tensors_[i - 1].begin + tensors_[i - 1].spec.bytes();
    }
  }

  SafetensorsHeader Header() const {
    SafetensorsHeader header{.metadata = metadata_};
    for (const Tensor& tensor : tensors_) {
      header.tensors.push_back({.name = tensor.spec.name,
                                .type = NameOf(tensor.spec.type),
                                .shape = tensor.spec.shape,
                                .begin = tensor.begin,
                                .end = tensor.begin + tensor.spec.bytes()});
    }
    return header;
  }

  const std::map<std::string, std::string> metadata_;
  std::vector<Tensor> tensors_;
  size_t first_late_ = 0;
  uint64_t head_bytes_ = 0;
  std::unique_ptr<StorageFile> file_;
};

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(
    Storage* storage, const std::string& path, std::vector<TensorSpec> tensors,
    std::map<std::string, std::string> metadata, size_t late) {
  RETURN_IF_ERROR(Annotate(CheckNames(tensors, metadata), path));
  auto impl = std::make_unique<Impl>(std::move(tensors), std::move(metadata), late);
  if (impl->head_bytes() > kSafetensorsMaxHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a header of ", impl->head_bytes(), " bytes, more than readers take"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<StorageFile> file, storage->Create(path));
  impl->Open(std::move(file));
  return SafetensorsWriter(std::move(impl));
}

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

absl::Status SafetensorsWriter::SetSize(size_t tensor, uint64_t size) {
  impl_->SetSize(tensor, size);
  return absl::OkStatus();
}
absl::Status SafetensorsWriter::Append(size_t tensor, std::span<const std::byte> bytes) {
  return impl_->Append(tensor, bytes);
}
uint64_t SafetensorsWriter::Checksum(size_t tensor) const { return impl_->Checksum(tensor); }
std::string SafetensorsWriter::Head() const { return impl_->Head(); }
absl::StatusOr<uint64_t> SafetensorsWriter::Finish() { return impl_->Finish(); }

}  // namespace monsoon
