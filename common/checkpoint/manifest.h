// A part's manifest as text, and the names of parts.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/shard_checkpoint.pb.h"

namespace monsoon {

// Newer ones are refused by name.
inline constexpr uint32_t kCheckpointFormat = 1;

// Longer manifests are refused: a good one has some hundred bytes.
inline constexpr uint64_t kMaxManifestBytes = 64 << 10;

// More parameter servers than a cluster may have: a file's name must not cost memory.
inline constexpr uint32_t kMaxPartShards = 1 << 16;

inline constexpr char kPartEnding[] = ".safetensors";
inline constexpr char kManifestEnding[] = ".manifest";
// Of files that are not finished.
inline constexpr char kTemporaryPrefix[] = ".tmp-";
// Of a damaged part's manifest, once its shard has gone on from an older part.
inline constexpr char kPassedOverPrefix[] = ".damaged-";

struct PartName {
  uint32_t shard = 0;
  uint32_t shards = 0;
  uint64_t generation = 0;
  uint64_t epoch = 0;

  static PartName Of(const CheckpointManifest& manifest);
  // "ps-0-of-2.g17.e3" and the ending.
  std::string Text(absl::string_view ending) const;
  // Of a manifest's file name; none for anything else.
  static std::optional<PartName> OfManifest(absl::string_view file_name);
};

// The message as text, and a line with the checksum of all bytes before it.
std::string ManifestText(const CheckpointManifest& manifest);
// The text and that line.
std::string WithChecksumLine(std::string text);

// DataLoss for what ManifestText does not write, FailedPrecondition for a newer format.
// The path is not in the messages.
absl::StatusOr<CheckpointManifest> ParseManifest(const std::string& text);

// That of a format newer than kCheckpointFormat.
absl::Status NewerFormat(absl::string_view version);

}  // namespace monsoon
