// Small data sets and valid configuration texts that tests break.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/config/diagnostics.h"

namespace monsoon::testing {

// A fresh folder under the test's temporary folder.
std::string MakeFolder(const std::string& name);

void WriteFile(const std::string& path, const std::string& bytes);

// An IDX file of unsigned bytes with these lengths; elements count up modulo
// `modulo`.
std::string IdxBytes(const std::vector<uint32_t>& shape, uint32_t modulo);

// Fills `folder` with what ValidJob() names, and with files that are wrong in
// one way each:
//   images.idx 100 x 4 x 4, labels.idx 100, labels of 10 classes; test-images.idx, test-labels.idx
//   20 few-labels.idx 99; wide-images.idx 100 x 5 x 5; cut-images.idx; not-idx.idx;
//   model.textproto, broken-model.textproto
void WriteFixtures(const std::string& folder);

std::string ValidCluster();
std::string ValidJob();
std::string ValidSandblasterJob();
std::string ValidModel();
std::string ValidChaosPlan();

// `text` with the first `find` replaced; fails the test when there is none.
std::string Replaced(const std::string& text, const std::string& find, const std::string& with);

// A valid text with one replacement, and the lines it must give, exactly. In
// them the file is FILE and the folder of the fixtures is DIR.
struct BrokenFile {
  std::string name;
  std::string find;
  std::string with;
  std::vector<std::string> lines;
};

// Lets googletest name a case in its messages.
void PrintTo(const BrokenFile& broken, std::ostream* out);

// Writes the broken file among the fixtures, loads it and compares.
void ExpectDiagnostics(
    const BrokenFile& broken, const std::string& valid,
    const std::function<absl::Status(const std::string& path, std::vector<Diagnostic>*)>& load);

}  // namespace monsoon::testing
