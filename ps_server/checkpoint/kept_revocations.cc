#include "ps_server/checkpoint/kept_revocations.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/logging.h"

namespace monsoon {
namespace {

constexpr uint64_t kMaxFile = 4 << 20;
constexpr size_t kHexDigits = 64;  // of a fingerprint

bool IsFingerprint(absl::string_view text) {
  return text.size() == kHexDigits &&
         std::ranges::all_of(text, [](unsigned char digit) { return absl::ascii_isxdigit(digit); });
}

// "version VERSION COUNT", and a line "FINGERPRINT NOT_AFTER_MS" for each key. Nothing for what is
// not whole.
std::optional<Revocations> Parse(const std::string& text) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  Revocations list;
  uint64_t version = 0;
  size_t count = 0;
  const std::vector<std::string> head =
      lines.empty() ? std::vector<std::string>() : absl::StrSplit(lines[0], ' ');
  if (head.size() != 3 || head[0] != "version" || !absl::SimpleAtoi(head[1], &version) ||
      !absl::SimpleAtoi(head[2], &count) || count != lines.size() - 1) {
    return std::nullopt;
  }
  list.set_version(version);
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> words = absl::StrSplit(lines[i], ' ');
    int64_t end = 0;
    if (words.size() != 2 || !IsFingerprint(words[0]) || !absl::SimpleAtoi(words[1], &end)) {
      return std::nullopt;
    }
    MemberKey* const key = list.add_key();
    key->set_fingerprint(absl::HexStringToBytes(words[0]));
    key->set_not_after_ms(end);
  }
  return list;
}

}  // namespace

KeptRevocations::KeptRevocations(Storage* storage, std::string path, absl::Time now)
    : storage_(storage), path_(std::move(path)) {
  if (path_.empty()) {
    return;
  }
  const absl::StatusOr<std::string> text = storage_->ReadAll(path_, kMaxFile);
  if (absl::IsNotFound(text.status())) {
    return;
  }
  const std::optional<Revocations> kept = text.ok() ? Parse(*text) : std::nullopt;
  if (!kept.has_value()) {
    LOG(ERROR) << "the list of members that were thrown out is lost, until the coordinator tells "
                  "it again: "
               << (text.ok() ? absl::StrCat(path_, " is damaged")
                             : std::string(text.status().message()));
    return;
  }
  keys_.Add(*kept, now);
  MutexLock lock(&mutex_);
  version_ = kept->version();
}

void KeptRevocations::Hear(const Revocations& told, absl::Time now) {
  MutexLock lock(&mutex_);
  // Without its keys a version that is not known says nothing.
  const bool whole = told.version() == 0 || !told.key().empty();
  if (told.version() == version_ || !whole) {
    return;
  }
  keys_.Add(told, now);
  if (Write(told.version())) {
    version_ = told.version();
  }
}

uint64_t KeptRevocations::version() const {
  MutexLock lock(&mutex_);
  return version_;
}

bool KeptRevocations::Write(uint64_t version) {
  if (path_.empty()) {
    return true;
  }
  const Revocations all = keys_.All();
  std::string text = absl::StrCat("version ", version, " ", all.key_size(), "\n");
  for (const MemberKey& key : all.key()) {
    absl::StrAppend(&text, absl::BytesToHexString(key.fingerprint()), " ", key.not_after_ms(),
                    "\n");
  }
  const absl::Status status = storage_->WriteAll(path_, text);
  if (!status.ok()) {
    LOG(WARNING) << "the list of members that were thrown out is not kept: "
                 << std::string(status.message());
  }
  return status.ok();
}

}  // namespace monsoon
