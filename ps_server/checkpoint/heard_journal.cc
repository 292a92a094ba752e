#include "ps_server/checkpoint/heard_journal.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/logging.h"

namespace monsoon {
namespace {

constexpr uint64_t kMaxFile = 256;

// "id life commits"; one that says nothing is none.
JournalMark Parse(const std::string& text) {
  JournalMark mark;
  const std::vector<std::string> words =
      absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  uint64_t id = 0, life = 0, commits = 0;
  if (words.size() == 3 && absl::SimpleAtoi(words[0], &id) && absl::SimpleAtoi(words[1], &life) &&
      absl::SimpleAtoi(words[2], &commits)) {
    mark.set_id(id);
    mark.set_life(life);
    mark.set_commits(commits);
  }
  return mark;
}

bool Follows(const JournalMark& told, const JournalMark& known) {
  if (known.id() == 0 || told.replaces() == known.id()) {
    return true;
  }
  if (told.id() != known.id()) {
    return false;
  }
  return told.life() == known.life() ? told.commits() >= known.commits()
                                     : told.begin() >= known.commits();
}

}  // namespace

HeardJournal::HeardJournal(Storage* storage, std::string path)
    : storage_(storage), path_(std::move(path)) {
  if (path_.empty()) {
    return;
  }
  const absl::StatusOr<std::string> text = storage_->ReadAll(path_, kMaxFile);
  if (!text.ok() && !absl::IsNotFound(text.status())) {
    LOG(WARNING) << "what was heard of the coordinator's journal is passed over: "
                 << std::string(text.status().message());
  }
  MutexLock lock(&mutex_);
  newest_ = written_ = text.ok() ? Parse(*text) : JournalMark();
}

JournalMark HeardJournal::Hear(const JournalMark& told) {
  MutexLock lock(&mutex_);
  if (told.id() != 0 && Follows(told, newest_)) {
    const bool other = told.id() != newest_.id() || told.life() != newest_.life();
    newest_ = told;
    if (other) {
      Write();
    }
  }
  return newest_;
}

std::optional<JournalMark> HeardJournal::newest() const {
  MutexLock lock(&mutex_);
  return newest_.id() == 0 ? std::nullopt : std::make_optional(newest_);
}

void HeardJournal::Keep() {
  MutexLock lock(&mutex_);
  if (newest_.commits() != written_.commits() || newest_.id() != written_.id()) {
    Write();
  }
}

void HeardJournal::Write() {
  if (path_.empty()) {
    return;
  }
  const absl::Status status = storage_->WriteAll(
      path_, absl::StrCat(newest_.id(), " ", newest_.life(), " ", newest_.commits(), "\n"));
  if (status.ok()) {
    written_ = newest_;
  } else {
    LOG(WARNING) << "what was heard of the coordinator's journal is not kept: "
                 << std::string(status.message());
  }
}

}  // namespace monsoon
