// A manifest: as it is, and with a right checksum line. It is refused, or can be written
// and read as the same, and its file's name names what it says.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/check.h"
#include "common/checkpoint/manifest.h"

namespace monsoon {
namespace {

void Parse(const std::string& text) {
  const absl::StatusOr<CheckpointManifest> manifest = ParseManifest(text);
  if (!manifest.ok()) {
    CHECK(absl::IsDataLoss(manifest.status()) || absl::IsFailedPrecondition(manifest.status()));
    CHECK(!manifest.status().message().empty());
    return;
  }
  const std::string written = ManifestText(*manifest);
  const absl::StatusOr<CheckpointManifest> read = ParseManifest(written);
  CHECK_OK(read.status());
  CHECK_EQ(read->SerializeAsString(), manifest->SerializeAsString());
  CHECK_EQ(ManifestText(*read), written);

  const PartName name = PartName::Of(*manifest);
  const std::optional<PartName> found = PartName::OfManifest(name.Text(kManifestEnding));
  // A name that nobody writes is none.
  CHECK(!found.has_value() || found->Text(kManifestEnding) == name.Text(kManifestEnding));
}

}  // namespace
}  // namespace monsoon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  monsoon::Parse(text);
  monsoon::Parse(monsoon::WithChecksumLine(text.substr(0, text.rfind('#'))));
  // Any file may lie in a folder of parts.
  const auto name = monsoon::PartName::OfManifest(text);
  CHECK(!name.has_value() || name->Text(monsoon::kManifestEnding) == text);
  return 0;
}
