#include "coordinator/replicas/data_look.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/peer_text.h"
#include "common/data/sample_shape.h"
#include "coordinator/job/shard_reason.h"

namespace monsoon {
namespace {

// "1200 samples of [28, 28], 10 classes".
std::string SetText(const DataSetSeen& set) {
  std::string text = absl::StrCat(set.examples(), set.examples() == 1 ? " sample" : " samples");
  if (set.sample_shape_size() > 0) {
    const std::vector<uint64_t> shape(set.sample_shape().begin(), set.sample_shape().end());
    absl::StrAppend(&text, " of ", SampleShapeText(shape));
  }
  if (set.classes() > 0) {
    absl::StrAppend(&text, ", ", set.classes(), set.classes() == 1 ? " class" : " classes");
  }
  return text;
}

std::string ReportText(const DataReport& report) {
  std::vector<std::string> sets;
  if (report.has_train()) {
    sets.push_back(absl::StrCat("train ", SetText(report.train())));
  }
  if (report.has_test()) {
    sets.push_back(absl::StrCat("test ", SetText(report.test())));
  }
  return absl::StrJoin(sets, "; ");
}

// A finding as several workers have it.
struct Shared {
  const DataFinding* finding;
  std::vector<std::string> names;
};

void Share(const DataFinding& finding, const std::string& name, std::vector<Shared>* shared) {
  const auto key = [](const DataFinding& of) {
    return std::tie(of.field(), of.message(), of.suggestion());
  };
  const auto same = std::ranges::find_if(
      *shared, [&](const Shared& other) { return key(*other.finding) == key(finding); });
  if (same != shared->end()) {
    same->names.push_back(name);
  } else {
    shared->push_back({&finding, {name}});
  }
}

DataFinding Told(const std::string& field, const std::string& who, const std::string& message,
                 const std::string& suggestion = "") {
  DataFinding told;
  told.set_field(field);
  told.set_message(absl::StrCat(who, ": ", message));
  told.set_suggestion(suggestion);
  return told;
}

std::vector<DataFinding> Tell(const std::vector<Shared>& shared) {
  std::vector<DataFinding> told;
  for (const Shared& each : shared) {
    told.push_back(Told(each.finding->field(), JoinSome(each.names), each.finding->message(),
                        each.finding->suggestion()));
  }
  return told;
}

}  // namespace

void DataLook::Ask(uint32_t worker, uint64_t incarnation, std::string name) {
  asked_[worker] = {incarnation, std::move(name), std::nullopt};
}

bool DataLook::Awaits(uint32_t worker, uint64_t incarnation) const {
  const auto asked = asked_.find(worker);
  return asked != asked_.end() && asked->second.incarnation == incarnation && !asked->second.report;
}

void DataLook::Answer(uint32_t worker, uint64_t incarnation, const DataReport& report) {
  if (Awaits(worker, incarnation)) {
    DataReport shown = report;
    for (auto* const findings : {shown.mutable_error(), shown.mutable_warning()}) {
      for (DataFinding& finding : *findings) {
        finding.set_field(PeerText(finding.field(), kMostPeerText));
        finding.set_message(PeerText(finding.message(), kMostPeerText));
        finding.set_suggestion(PeerText(finding.suggestion(), kMostPeerText));
      }
    }
    asked_[worker].report = std::move(shown);
  }
}

void DataLook::NoteGone(uint32_t worker, uint64_t incarnation) {
  if (Awaits(worker, incarnation)) {
    asked_.erase(worker);
  }
}

std::vector<std::string> DataLook::awaited() const {
  std::vector<std::string> names;
  for (const auto& [worker, asked] : asked_) {
    if (!asked.report) {
      names.push_back(asked.name);
    }
  }
  return names;
}

std::vector<std::pair<uint32_t, uint64_t>> DataLook::asked() const {
  std::vector<std::pair<uint32_t, uint64_t>> all;
  for (const auto& [worker, asked] : asked_) {
    all.emplace_back(worker, asked.incarnation);
  }
  return all;
}

std::vector<const DataLook::Asked*> DataLook::Answered() const {
  std::vector<const Asked*> answered;
  for (const auto& [worker, asked] : asked_) {
    if (asked.report) {
      answered.push_back(&asked);
    }
  }
  return answered;
}

void DataLook::Compare(const Asked& first, const Asked& other, DataVerdict* verdict) const {
  const auto compare = [&](const std::string& set, bool both, const DataSetSeen& a,
                           const DataSetSeen& b) {
    if (!both) {
      return;  // An error about the set says why.
    }
    if (a.description() != b.description()) {
      const bool alike = SetText(a) == SetText(b);
      verdict->errors.push_back(Told(
          set, other.name,
          absl::StrCat("it sees ", alike ? "other names or kinds of values" : SetText(b), " where ",
                       first.name, " sees ", alike ? "as many samples" : SetText(a)),
          "give all machines the same files"));
    } else if (a.content() != b.content()) {
      verdict->warnings.push_back(
          Told(set, other.name,
               absl::StrCat("its files differ from those of ", first.name,
                            "; where their values do, one of them is left out of the job"),
               "give all machines the same files"));
    }
  };
  const DataReport& a = *first.report;
  const DataReport& b = *other.report;
  compare("train", a.has_train() && b.has_train(), a.train(), b.train());
  compare("test", a.has_test() && b.has_test(), a.test(), b.test());
}

std::optional<DataVerdict> DataLook::Verdict(absl::Duration now) const {
  const std::vector<const Asked*> answered = Answered();
  if (answered.empty() || (answered.size() < asked_.size() && now - began_ < kLookFor)) {
    return std::nullopt;
  }
  std::vector<Shared> errors;
  std::vector<Shared> warnings;
  std::vector<std::string> names;
  for (const Asked* const asked : answered) {
    for (const DataFinding& error : asked->report->error()) {
      Share(error, asked->name, &errors);
    }
    for (const DataFinding& warning : asked->report->warning()) {
      Share(warning, asked->name, &warnings);
    }
    names.push_back(asked->name);
  }
  DataVerdict verdict{.errors = Tell(errors), .warnings = Tell(warnings)};
  for (const Asked* const other : answered) {
    Compare(*answered.front(), *other, &verdict);
  }
  for (const std::string& name : awaited()) {
    verdict.warnings.push_back(Told("", name,
                                    absl::StrFormat("it has not looked at the data within %.0f s",
                                                    absl::ToDoubleSeconds(kLookFor))));
  }
  verdict.examples = answered.front()->report->train().examples();
  verdict.seen = absl::StrCat(JoinSome(names), ": ", ReportText(*answered.front()->report));
  return verdict;
}

std::string FindingText(const DataFinding& finding) {
  return absl::StrCat(finding.message(),
                      finding.field().empty() ? "" : absl::StrCat(" (", finding.field(), ")"),
                      finding.suggestion().empty() ? "" : "; ", finding.suggestion());
}

}  // namespace monsoon
