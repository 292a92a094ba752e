#include "worker/data/data_report.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/utf8.h"
#include "common/config/data_findings.h"
#include "common/config/diagnostics.h"
#include "common/data/dataset_info.h"
#include "common/data/file_pattern.h"
#include "proto/dataset.pb.h"
#include "worker/data/fingerprint.h"

namespace monsoon {
namespace {

// Of a file, at its beginning and at its end. Headers and the first samples differ where files do
// by design, and what was cut off or added shows in sizes and ends.
constexpr size_t kSampledBytes = 64 << 10;

// What cannot be read adds nothing: the findings tell of it.
void AddFile(const std::filesystem::path& path, Fingerprinter* print) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) {
    return;
  }
  const auto size = static_cast<uint64_t>(std::max<std::streamoff>(0, file.tellg()));
  print->Add(size);
  std::vector<char> bytes(std::min<uint64_t>(size, kSampledBytes));
  for (const uint64_t at : std::array<uint64_t, 2>{0, size - bytes.size()}) {
    ContentHash hash;
    file.seekg(static_cast<std::streamoff>(at));
    if (file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) {
      hash.Append({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    }
    print->Add(hash);
  }
}

// Names and sizes alone: of many small files each would be opened.
void AddFolder(const std::filesystem::path& folder, Fingerprinter* print) {
  std::vector<std::pair<std::string, uint64_t>> files;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator
           at(folder, std::filesystem::directory_options::follow_directory_symlink, error),
       end;
       !error && at != end; at.increment(error)) {
    std::error_code unsized;
    if (at->is_regular_file(unsized)) {
      const uint64_t size = at->file_size(unsized);
      files.emplace_back(at->path().lexically_relative(folder).string(), unsized ? 0 : size);
    }
  }
  std::ranges::sort(files);
  for (const auto& [name, size] : files) {
    print->Add(absl::string_view(name));
    print->Add(size);
  }
}

uint64_t ContentOf(Dataset dataset) {
  Fingerprinter print;
  VisitPaths(&dataset, [&](std::string* path) {
    if (path->empty()) {
      return;
    }
    const absl::StatusOr<std::vector<std::string>> files = FilesOf(*path);
    for (const std::string& file : files.ok() ? *files : std::vector<std::string>()) {
      std::error_code error;
      if (std::filesystem::is_directory(file, error)) {
        AddFolder(file, &print);
      } else {
        AddFile(file, &print);
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

DataSetSeen Seen(const Dataset& dataset, const DatasetInfo& info) {
  DataSetSeen seen;
  seen.set_examples(info.examples);
  seen.mutable_sample_shape()->Add(info.sample_shape.begin(), info.sample_shape.end());
  seen.set_classes(info.class_names.empty() ? info.classes
                                            : static_cast<uint32_t>(info.class_names.size()));
  seen.set_description(DescriptionOf(info));
  seen.set_content(ContentOf(dataset));
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

DataReport ReportData(const Job& job) {
  DataFindings findings;
  try {
    findings = FindInData(job);
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
    *report.mutable_train() = Seen(job.train(), *findings.train);
  }
  if (findings.test) {
    *report.mutable_test() = Seen(job.test(), *findings.test);
  }
  return report;
}

}  // namespace monsoon
