#include "common/model_file/model_file.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/finite.h"
#include "common/base/shorten.h"
#include "common/base/status.h"
#include "common/npz/npz_reader.h"
#include "common/npz/npz_writer.h"
#include "common/safetensors/safetensors_file.h"
#include "common/storage/file_path.h"
#include "common/storage/storage.h"

namespace monsoon {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are little-endian");

// What a part of a checkpoint has beside pieces of tensors (common/checkpoint).
constexpr char kPartOfACheckpoint[] = "monsoon/shard";

// A stranger's file may have a million tensors that do not fit, with names of any length.
constexpr size_t kMostProblems = 20;
constexpr size_t kMostNameBytes = 200;

class Problems {
 public:
  void Add(std::string problem) {
    if (++count_ <= kMostProblems) {
      problems_.push_back(std::move(problem));
    }
  }
  bool empty() const { return count_ == 0; }
  std::string Text() const {
    const std::string more =
        count_ > problems_.size() ? absl::StrCat("; and ", count_ - problems_.size(), " more") : "";
    return absl::StrCat(absl::StrJoin(problems_, "; "), more);
  }

 private:
  std::vector<std::string> problems_;
  size_t count_ = 0;
};

// The tensors of a file, in whichever form.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  virtual std::vector<std::string> Names() const = 0;
  // As the form calls it: "member a/weight.npy".
  virtual std::string Called(const std::string& name) const = 0;
  // Reads the tensor into `out` if it is float32 of that shape; else "" becomes what is
  // wrong with it, and `out` is as it was. An error: the file cannot be read.
  virtual absl::StatusOr<std::string> Read(const std::string& name,
                                           const std::vector<uint32_t>& shape,
                                           std::span<float> out) const = 0;

 protected:
  // "" where the shapes are the same.
  static std::string CompareShapes(const std::vector<uint64_t>& found,
                                   const std::vector<uint32_t>& wanted) {
    return std::equal(found.begin(), found.end(), wanted.begin(), wanted.end())
               ? ""
               : absl::StrCat("has the shape (", absl::StrJoin(found, ", "), "), the model has (",
                              absl::StrJoin(wanted, ", "), ")");
  }
};

class NpzFile final : public TensorFile {
 public:
  explicit NpzFile(NpzReader reader) : reader_(std::move(reader)) {}

  std::vector<std::string> Names() const override { return reader_.Names(); }
  std::string Called(const std::string& name) const override {
    return absl::StrCat("member ", name, ".npy");
  }
  absl::StatusOr<std::string> Read(const std::string& name, const std::vector<uint32_t>& shape,
                                   std::span<float> out) const override {
    ASSIGN_OR_RETURN(const NpzReader::Array array, reader_.Read(name));
    const std::string difference = CompareShapes(array.shape, shape);
    if (difference.empty()) {
      std::copy(array.values.begin(), array.values.end(), out.begin());
    }
    return difference;
  }

 private:
  NpzReader reader_;
};

class SafetensorsFile final : public TensorFile {
 public:
  explicit SafetensorsFile(SafetensorsReader reader) : reader_(std::move(reader)) {}

  std::vector<std::string> Names() const override {
    std::vector<std::string> names;
    for (const SafetensorsReader::Tensor& tensor : reader_.tensors()) {
      names.push_back(tensor.name);
    }
    return names;
  }
  std::string Called(const std::string& name) const override {
    return absl::StrCat("tensor ", name);
  }
  absl::StatusOr<std::string> Read(const std::string& name, const std::vector<uint32_t>& shape,
                                   std::span<float> out) const override {
    const SafetensorsReader::Tensor& tensor = *reader_.Find(name);
    if (tensor.type != NameOf(TensorType::kF32)) {
      return absl::StrCat("is ", tensor.type, ", it must be ", NameOf(TensorType::kF32));
    }
    std::string difference = CompareShapes(tensor.shape, shape);
    if (difference.empty()) {
      RETURN_IF_ERROR(reader_.Read(tensor, 0, std::as_writable_bytes(out)));
    }
    return difference;
  }

 private:
  SafetensorsReader reader_;
};

absl::StatusOr<std::unique_ptr<TensorFile>> Open(const std::string& path) {
  if (ModelFormatOf(path) == ModelFormat::kOnnx) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ONNX files are for other programs; export the job as .npz too"));
  }
  if (ModelFormatOf(path) == ModelFormat::kSafetensors) {
    ASSIGN_OR_RETURN(SafetensorsReader reader, SafetensorsReader::Open(PosixStorage(), path));
    if (reader.Find(kPartOfACheckpoint) != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          path,
          " is one shard's part of a checkpoint, not a model; name the folder that it is in"));
    }
    return std::make_unique<SafetensorsFile>(std::move(reader));
  }
  ASSIGN_OR_RETURN(NpzReader reader, NpzReader::Open(path));
  return std::make_unique<NpzFile>(std::move(reader));
}

// Gives all values of table `index`, and checks that there are as many as it has.
absl::Status GiveTable(const TableInfo& table, uint32_t index, const TableSource& tables,
                       absl::FunctionRef<absl::Status(std::span<const float>)> take) {
  uint64_t left = table.rows * table.columns;
  RETURN_IF_ERROR(tables(index, [&](std::span<const float> values) {
    CHECK_LE(values.size(), left);
    left -= values.size();
    return take(values);
  }));
  CHECK_EQ(left, 0u);
  return absl::OkStatus();
}

absl::Status WriteNpz(const ParameterLayout& layout, std::span<const float> parameters,
                      const std::string& path, const TableSource& tables) {
  ASSIGN_OR_RETURN(NpzWriter writer, NpzWriter::Create(path));
  for (const TensorInfo& tensor : layout.tensors()) {
    RETURN_IF_ERROR(
        writer.Add(tensor.name, tensor.shape, parameters.subspan(tensor.offset, tensor.size)));
  }
  for (uint32_t index = 0; index < layout.tables().size(); ++index) {
    const TableInfo& table = layout.tables()[index];
    const uint64_t shape[] = {table.rows, table.columns};
    RETURN_IF_ERROR(writer.Begin(table.name, shape));
    RETURN_IF_ERROR(GiveTable(table, index, tables, [&](std::span<const float> values) {
      return writer.Append(values);
    }));
    RETURN_IF_ERROR(writer.End());
  }
  return writer.Finish();
}

// The whole file, at a path that nobody reads yet.
absl::Status WriteTensors(const ParameterLayout& layout, std::span<const float> parameters,
                          const std::string& path, const TableSource& tables) {
  std::vector<TensorSpec> specs;
  for (const TensorInfo& tensor : layout.tensors()) {
    specs.push_back({tensor.name, TensorType::kF32, {tensor.shape.begin(), tensor.shape.end()}});
  }
  for (const TableInfo& table : layout.tables()) {
    specs.push_back({table.name, TensorType::kF32, {table.rows, table.columns}});
  }
  ASSIGN_OR_RETURN(
      SafetensorsWriter writer,
      SafetensorsWriter::Create(OutputStorage(), path, std::move(specs), {{"format", "pt"}}));
  for (size_t i = 0; i < layout.tensors().size(); ++i) {
    const TensorInfo& tensor = layout.tensors()[i];
    RETURN_IF_ERROR(
        writer.Append(i, std::as_bytes(parameters.subspan(tensor.offset, tensor.size))));
  }
  for (uint32_t index = 0; index < layout.tables().size(); ++index) {
    RETURN_IF_ERROR(
        GiveTable(layout.tables()[index], index, tables, [&](std::span<const float> values) {
          return writer.Append(layout.tensors().size() + index, std::as_bytes(values));
        }));
  }
  return writer.Finish().status();
}

absl::Status WriteSafetensors(const ParameterLayout& layout, std::span<const float> parameters,
                              const std::string& path, const TableSource& tables) {
  Storage* const storage = OutputStorage();
  const std::string temporary = absl::StrCat(path, ".tmp.", getpid());
  absl::Status status = WriteTensors(layout, parameters, temporary, tables);
  if (status.ok()) {
    status = storage->Rename(temporary, path);
  }
  if (!status.ok()) {
    storage->Remove(temporary).IgnoreError();
    return status;
  }
  return storage->SyncFolder(FolderOf(path));
}

}  // namespace

const char* NameOf(ModelFormat format) {
  switch (format) {
    case ModelFormat::kNpz:
      return "npz";
    case ModelFormat::kSafetensors:
      return "safetensors";
    case ModelFormat::kOnnx:
      return "onnx";
  }
  return "";
}

std::optional<ModelFormat> ModelFormatByName(absl::string_view name) {
  for (const ModelFormat format : kModelFormats) {
    if (name == NameOf(format)) {
      return format;
    }
  }
  return std::nullopt;
}

std::optional<ModelFormat> ModelFormatOf(absl::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == absl::string_view::npos ? std::nullopt : ModelFormatByName(path.substr(dot + 1));
}

absl::Status WriteModelFile(const ParameterLayout& layout, std::span<const float> parameters,
                            const std::string& path, const TableSource& tables) {
  CHECK_EQ(parameters.size(), layout.size());
  CHECK(layout.tables().empty() || tables != nullptr);
  const std::optional<ModelFormat> format = ModelFormatOf(path);
  if (!format.has_value() || *format == ModelFormat::kOnnx) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": tensors are written as a .npz or a .safetensors file"));
  }
  return *format == ModelFormat::kNpz ? WriteNpz(layout, parameters, path, tables)
                                      : WriteSafetensors(layout, parameters, path, tables);
}

absl::StatusOr<std::vector<float>> ReadModelFile(const ParameterLayout& layout,
                                                 const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<TensorFile> file, Open(path));
  const std::vector<std::string> names = file->Names();
  std::set<std::string> unused(names.begin(), names.end());
  Problems problems;
  std::vector<float> parameters(layout.size());
  for (const TensorInfo& tensor : layout.tensors()) {
    const std::string called = file->Called(tensor.name);
    if (unused.erase(tensor.name) == 0) {
      problems.Add(absl::StrCat(called, " is missing"));
      continue;
    }
    ASSIGN_OR_RETURN(const std::string problem,
                     file->Read(tensor.name, tensor.shape,
                                std::span(parameters).subspan(tensor.offset, tensor.size)));
    if (!problem.empty()) {
      problems.Add(absl::StrCat(called, " ", problem));
    }
  }
  for (const std::string& name : unused) {
    problems.Add(
        absl::StrCat(file->Called(Shorten(name, kMostNameBytes)), " is no tensor of the model"));
  }
  if (!problems.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " does not fit the model: ", problems.Text()));
  }
  return parameters;
}

absl::Status CheckModelFinite(const ParameterLayout& layout, std::span<const float> parameters,
                              const std::string& path) {
  for (const TensorInfo& tensor : layout.tensors()) {
    const std::span<const float> values = parameters.subspan(tensor.offset, tensor.size);
    const std::optional<uint64_t> at = FirstNonFinite(values);
    if (!at.has_value()) {
      continue;
    }
    std::vector<uint64_t> index(tensor.shape.size());
    uint64_t rest = *at;
    for (size_t i = index.size(); i > 0; --i) {
      index[i - 1] = rest % tensor.shape[i - 1];
      rest /= tensor.shape[i - 1];
    }
    return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", tensor.name, " has ",
                                                   values[*at], " at [", absl::StrJoin(index, ", "),
                                                   "]; a job begins with finite numbers"));
  }
  return absl::OkStatus();
}

}  // namespace monsoon
