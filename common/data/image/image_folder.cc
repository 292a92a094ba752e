#include "common/data/image/image_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/data/image/image_decoder.h"
#include "common/data/image/image_fit.h"

namespace monsoon {
namespace {

namespace fs = std::filesystem;

constexpr std::streamoff kMaxImageFileBytes = 1 << 30;

absl::Status InvalidPath(const std::string& path, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", message));
}

absl::Status SystemError(const std::string& path, const std::error_code& error) {
  const std::string message = absl::StrCat("cannot read ", path, ": ", error.message(),
                                           error == std::errc::not_a_directory
                                               ? "; the path of an image folder is that of a folder"
                                               : "");
  return error == std::errc::no_such_file_or_directory ? absl::NotFoundError(message)
         : error == std::errc::permission_denied       ? absl::PermissionDeniedError(message)
                                                       : absl::InvalidArgumentError(message);
}

struct Entry {
  std::string name;
  bool is_folder = false;
};

// What lies in a folder, in the order of the names' bytes.
absl::StatusOr<std::vector<Entry>> List(const std::string& path) {
  std::error_code error;
  std::vector<Entry> entries;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!absl::StartsWith(name, ".")) {
      const bool is_folder = at->is_directory(error);
      if (error) {  // increment() would forget it
        return SystemError(at->path().string(), error);
      }
      entries.push_back({name, is_folder});
    }
  }
  if (error) {
    return SystemError(path, error);
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

bool IsImageName(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  return absl::EndsWith(lower, ".png") || absl::EndsWith(lower, ".jpg") ||
         absl::EndsWith(lower, ".jpeg");
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ClassFolders(const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<Entry> entries, List(path));
  std::vector<std::string> folders;
  for (const Entry& entry : entries) {
    if (entry.is_folder) {
      folders.push_back(entry.name);
    } else if (IsImageName(entry.name)) {
      return InvalidPath(path + "/" + entry.name,
                         "an image beside the classes' folders; move it into that of its class");
    }
  }
  if (folders.empty()) {
    return InvalidPath(path, "there are no folders, one a class, with images in them");
  }
  return folders;
}

namespace {

absl::Status CheckParts(const ImageFolderSource& source) {
  if (source.parts() == 0) {
    return source.first() == 0 && !source.rest()
               ? absl::OkStatus()
               : absl::InvalidArgumentError("first and rest mean nothing without parts");
  }
  if (source.first() == 0 || source.first() >= source.parts()) {
    return absl::InvalidArgumentError(absl::StrCat("first is ", source.first(), " of ",
                                                   source.parts(), " parts; it must be from 1 to ",
                                                   source.parts() - 1));
  }
  return absl::OkStatus();
}

// Adds those of a class that are of the set.
absl::Status AddClass(const ImageFolderSource& source, const std::string& path, uint32_t label,
                      ImageFolder* folder) {
  ASSIGN_OR_RETURN(const std::vector<Entry> entries, List(path));
  uint32_t number = 0;
  for (const Entry& entry : entries) {
    const std::string file = path + "/" + entry.name;
    if (entry.is_folder || !IsImageName(entry.name)) {
      return InvalidPath(file, entry.is_folder
                                   ? "a folder in the folder of a class, which holds images alone"
                                   : "called neither .png nor .jpg nor .jpeg");
    }
    const bool is_first = source.parts() == 0 || number % source.parts() < source.first();
    ++number;
    if (is_first != source.rest()) {
      folder->files.push_back(file);
      folder->labels.push_back(label);
    }
  }
  return number == 0 ? InvalidPath(path, "there are no images in the folder of this class")
                     : absl::OkStatus();
}

}  // namespace

absl::StatusOr<ImageFolder> ListImages(const ImageFolderSource& source,
                                       std::span<const std::string> class_names, uint64_t limit) {
  RETURN_IF_ERROR(CheckParts(source));
  ASSIGN_OR_RETURN(const std::vector<std::string> folders, ClassFolders(source.path()));
  ImageFolder result;
  result.class_names.assign(class_names.begin(), class_names.end());
  if (class_names.empty()) {
    result.class_names = folders;
  }
  for (const std::string& folder : folders) {
    if (std::find(result.class_names.begin(), result.class_names.end(), folder) ==
        result.class_names.end()) {
      return InvalidPath(absl::StrCat(source.path(), "/", folder),
                         absl::StrCat("the folder is none of the classes ",
                                      absl::StrJoin(result.class_names, ", ")));
    }
  }
  for (size_t label = 0; label < result.class_names.size(); ++label) {
    const std::string& name = result.class_names[label];
    if (std::binary_search(folders.begin(), folders.end(), name)) {
      RETURN_IF_ERROR(AddClass(source, absl::StrCat(source.path(), "/", name),
                               static_cast<uint32_t>(label), &result));
    }
  }
  if (limit != 0 && limit < result.files.size()) {
    result.files.resize(limit);
    result.labels.resize(limit);
  }
  if (result.files.empty()) {
    return InvalidPath(source.path(), "no image is of this part");
  }
  return result;
}

absl::StatusOr<ImageFolder> ListUnlabelledImages(const std::string& path, uint64_t limit) {
  ASSIGN_OR_RETURN(const std::vector<Entry> entries, List(path));
  ImageFolder result;
  for (const Entry& entry : entries) {
    const std::string file = path + "/" + entry.name;
    if (entry.is_folder) {
      RETURN_IF_ERROR(AddClass({}, file, 0, &result));
    } else if (IsImageName(entry.name)) {
      result.files.push_back(file);
    }
  }
  if (result.files.empty()) {
    return InvalidPath(path, "there are no images, called .png, .jpg or .jpeg");
  }
  if (limit != 0 && limit < result.files.size()) {
    result.files.resize(limit);
  }
  result.labels.assign(result.files.size(), 0);
  return result;
}

absl::StatusOr<std::vector<uint8_t>> ReadWholeFile(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) {
    return InvalidPath(path, "not a file");
  }
  errno = 0;
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) {
    return SystemError(path, std::error_code(errno, std::generic_category()));
  }
  const std::streamoff size = in.tellg();
  if (size < 0 || size > kMaxImageFileBytes) {
    return InvalidPath(path, absl::StrCat("a file of ", size, " bytes; an image has at most ",
                                          kMaxImageFileBytes));
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  in.seekg(0);
  if (!in.read(reinterpret_cast<char*>(bytes.data()), size)) {
    if (errno == 0) {
      return absl::DataLossError(absl::StrCat(path, ": the file ended while it was read"));
    }
    return SystemError(path, std::error_code(errno, std::generic_category()));
  }
  return bytes;
}

absl::Status ReadImage(const std::string& path, std::span<const uint32_t> shape,
                       std::span<uint8_t> out) {
  ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, ReadWholeFile(path));
  ASSIGN_OR_RETURN(const Image image, DecodeImage(bytes, path));
  FitImage(image, shape[0], shape[1], shape[2], out);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint32_t>> ImageShape(std::span<const uint32_t> input_shape) {
  std::vector<uint32_t> shape(input_shape.begin(), input_shape.end());
  if (shape.size() == 2) {
    shape.insert(shape.begin(), 1);
  }
  if (shape.size() != 3 || (shape[0] != 1 && shape[0] != 3)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "images are [channels, height, width] with 1 or 3 channels, the model's input_shape is [",
        absl::StrJoin(input_shape, ", "), "]"));
  }
  return shape;
}

}  // namespace monsoon
