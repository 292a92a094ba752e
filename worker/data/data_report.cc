#include "worker/data/data_report.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"
#include "common/config/data_findings.h"
#include "common/config/diagnostics.h"
#include "common/data/dataset_info.h"
#include "common/data/file_pattern.h"
#include "common/process/unique_fd.h"
#include "proto/dataset.pb.h"
#include "worker/data/fingerprint.h"

namespace monsoon {
namespace {

// Of a file, at its beginning and at its end. Headers and the first samples differ where files do
// by design, and what was cut off or added shows in sizes and ends.
constexpr size_t kSampledBytes = 64 << 10;

// Of folders within folders, which links could make endless.
constexpr int kMostDepth = 8;

// What cannot be read adds nothing: the findings tell of it.
void AddFile(const std::string& path, const DataRoots& roots, Fingerprinter* print) {
  const absl::StatusOr<UniqueFd> file = roots.OpenFile(path);
  struct stat info;
  if (!file.ok() || fstat(file->get(), &info) != 0) {
    return;
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  print->Add(size);
  std::vector<uint8_t> bytes(std::min<uint64_t>(size, kSampledBytes));
  for (const uint64_t at : std::array<uint64_t, 2>{0, size - bytes.size()}) {
    ContentHash hash;
    if (pread(file->get(), bytes.data(), bytes.size(), static_cast<off_t>(at)) ==
        static_cast<ssize_t>(bytes.size())) {
      hash.Append(bytes);
    }
    print->Add(hash);
  }
}

using SizedNames = std::vector<std::pair<std::string, uint64_t>>;

// `path` from `folder` on; "" or with a '/' at its end.
void ListFiles(const std::string& folder, const std::string& path, const DataRoots& roots,
               int depth, SizedNames* files) {
  const auto names = roots.Names(folder + "/" + path);
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    const std::string file = path + name;
    const absl::StatusOr<struct stat> info = roots.Stat(absl::StrCat(folder, "/", file));
    if (!info.ok()) {
      continue;
    }
    if (S_ISREG(info->st_mode)) {
      files->emplace_back(file, static_cast<uint64_t>(info->st_size));
    } else if (S_ISDIR(info->st_mode) && depth < kMostDepth) {
      ListFiles(folder, file + "/", roots, depth + 1, files);
    }
  }
}

// Names and sizes alone: of many small files each would be opened.
void AddFolder(const std::string& folder, const DataRoots& roots, Fingerprinter* print) {
  SizedNames files;
  ListFiles(folder, "", roots, 0, &files);
  std::ranges::sort(files);
  for (const auto& [name, size] : files) {
    print->Add(absl::string_view(name));
    print->Add(size);
  }
}

uint64_t ContentOf(Dataset dataset, const DataRoots& roots) {
  Fingerprinter print;
  VisitPaths(&dataset, [&](std::string* path) {
    if (path->empty()) {
      return;
    }
    const absl::StatusOr<std::vector<std::string>> files = FilesOf(*path, roots);
    for (const std::string& file : files.ok() ? *files : std::vector<std::string>()) {
      const absl::StatusOr<struct stat> info = roots.Stat(file);
      if (info.ok() && S_ISDIR(info->st_mode)) {
        AddFolder(file, roots, &print);
      } else {
        AddFile(file, roots, &print);
      }
    }
  });
  return print.value();
}

uint64_t DescriptionOf(const DatasetInfo& info) {
  Fingerprinter print;
  for (const uint64_t number :
       {info.examples, uint64_t{info.sample_shape.size()}, uint64_t{info.classes},
        static_cast<uint64_t>(info.type), info.labels, info.targets, uint64_t{info.weighted}}) {
    print.Add(number);
  }
  for (const uint64_t extent : info.sample_shape) {
    print.Add(extent);
  }
  for (const std::vector<std::string>* const names : {&info.class_names, &info.feature_names}) {
    print.Add(uint64_t{names->size()});
    for (const std::string& name : *names) {
      print.Add(absl::string_view(name));
    }
  }
  return print.value();
}

DataSetSeen Seen(const Dataset& dataset, const DatasetInfo& info, const DataRoots& roots) {
  DataSetSeen seen;
  seen.set_examples(info.examples);
  seen.mutable_sample_shape()->Add(info.sample_shape.begin(), info.sample_shape.end());
  seen.set_classes(info.class_names.empty() ? info.classes
                                            : static_cast<uint32_t>(info.class_names.size()));
  seen.set_description(DescriptionOf(info));
  seen.set_content(ContentOf(dataset, roots));
  return seen;
}

DataFinding FindingOf(const Diagnostic& diagnostic) {
  DataFinding finding;
  finding.set_field(diagnostic.field);
  finding.set_message(ValidUtf8(diagnostic.message));
  finding.set_suggestion(ValidUtf8(diagnostic.suggestion));
  return finding;
}

}  // namespace

DataReport ReportData(const Job& job, const DataAccess& access) {
  DataFindings findings;
  try {
    findings = FindInData(job, access);
  } catch (const std::bad_alloc&) {
    findings.errors.push_back(
        {.field = "train", .message = "the data do not fit into this machine's memory"});
  }
  DataReport report;
  for (const Diagnostic& error : findings.errors) {
    *report.add_error() = FindingOf(error);
  }
  for (const Diagnostic& warning : findings.warnings) {
    *report.add_warning() = FindingOf(warning);
  }
  if (findings.train) {
    *report.mutable_train() = Seen(job.train(), *findings.train, access.roots);
  }
  if (findings.test) {
    *report.mutable_test() = Seen(job.test(), *findings.test, access.roots);
  }
  return report;
}

}  // namespace monsoon
