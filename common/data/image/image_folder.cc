#include "common/data/image/image_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/data/image/image_decoder.h"
#include "common/data/image/image_fit.h"

namespace monsoon {
namespace {

constexpr off_t kMaxImageFileBytes = 1 << 30;

absl::Status InvalidPath(const std::string& path, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", message));
}

using Entry = DataRoots::Entry;

// What lies in a folder and is not hidden.
absl::StatusOr<std::vector<Entry>> List(const std::string& path, const DataRoots& roots) {
  ASSIGN_OR_RETURN(const struct stat info, roots.Stat(path));
  if (!S_ISDIR(info.st_mode)) {
    return InvalidPath(path, "not a folder; the path of an image folder is that of a folder");
  }
  ASSIGN_OR_RETURN(std::vector<Entry> entries, roots.List(path));
  std::erase_if(entries, [](const Entry& entry) { return absl::StartsWith(entry.name, "."); });
  return entries;
}

bool IsImageName(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  return absl::EndsWith(lower, ".png") || absl::EndsWith(lower, ".jpg") ||
         absl::EndsWith(lower, ".jpeg");
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ClassFolders(const std::string& path,
                                                      const DataRoots& roots) {
  ASSIGN_OR_RETURN(const std::vector<Entry> entries, List(path, roots));
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
                      const DataRoots& roots, ImageFolder* folder) {
  ASSIGN_OR_RETURN(const std::vector<Entry> entries, List(path, roots));
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
                                       std::span<const std::string> class_names, uint64_t limit,
                                       const DataRoots& roots) {
  RETURN_IF_ERROR(CheckParts(source));
  ASSIGN_OR_RETURN(const std::vector<std::string> folders, ClassFolders(source.path(), roots));
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
                               static_cast<uint32_t>(label), roots, &result));
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

absl::StatusOr<ImageFolder> ListUnlabelledImages(const std::string& path, uint64_t limit,
                                                 const DataRoots& roots) {
  ASSIGN_OR_RETURN(const std::vector<Entry> entries, List(path, roots));
  ImageFolder result;
  for (const Entry& entry : entries) {
    const std::string file = path + "/" + entry.name;
    if (entry.is_folder) {
      RETURN_IF_ERROR(AddClass({}, file, 0, roots, &result));
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

absl::StatusOr<std::vector<uint8_t>> ReadWholeFile(const std::string& path,
                                                   const DataRoots& roots) {
  ASSIGN_OR_RETURN(const UniqueFd file, roots.OpenFile(path));
  struct stat info;
  if (fstat(file.get(), &info) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  }
  if (info.st_size > kMaxImageFileBytes) {
    return InvalidPath(path, absl::StrCat("a file of ", info.st_size,
                                          " bytes; an image has at most ", kMaxImageFileBytes));
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(info.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return absl::DataLossError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
    }
    if (got == 0) {
      return absl::DataLossError(absl::StrCat(path, ": the file ended while it was read"));
    }
    done += static_cast<size_t>(got);
  }
  return bytes;
}

absl::Status ReadImage(const std::string& path, const DataRoots& roots,
                       std::span<const uint32_t> shape, std::span<uint8_t> out) {
  ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, ReadWholeFile(path, roots));
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
