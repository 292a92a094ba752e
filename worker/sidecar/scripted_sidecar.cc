// A sidecar for tests of libmonsoon: there is no cluster. The text of the job says how it
// answers one call after another, a word each:
//   go, evaluate, nothing, ended   the event
//   !     behind it: the session was lost
//   =3    behind that: differences are to have so many local steps from now on
//   +2    behind that: with so many batches of 4 samples, numbered from 0 on
// "rows" answers a fetch of rows of its table, of 100 rows x 2: row r is r + 0.25, r + 0.5. With
// any event, `pushes` is how many pieces of rows a step has brought, `bytes_pushed` the sum of
// their values; `refused` is how many tensors the step had no gradient of, `fetches` of how many
// streams it has told a position. "stream" answers the question for one by what was told of it.
// "diverged" refuses a report of divergence, with its text, and all calls from then on.
// "seen" takes the gradient, and only then, after 20 ms, answers go. "die" kills it, and the
// next one begins with the first word behind "again".
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/process/unique_fd.h"
#include "worker/client/exchange.h"
#include "worker/client/monsoon.h"
#include "worker/client/sidecar_descriptors.h"
#include "worker/sidecar/program.h"
#include "worker/sidecar/program_memory.h"

namespace monsoon {
namespace {

constexpr uint32_t kBatch = 4;
constexpr uint64_t kRows = 100;
constexpr uint32_t kColumns = 2;
// Of a step's fields before its rows: batches, four counts, whether there is a loss, and that.
constexpr size_t kStepBytes = 4 + 4 * 8 + 1 + 8;
constexpr absl::Duration kPatience = absl::Seconds(60);

uint32_t KindOf(const std::string& word) {
  if (word == "evaluate") {
    return MONSOON_EVALUATE;
  }
  if (word == "nothing") {
    return MONSOON_NOTHING_NOW;
  }
  return word == "ended" ? MONSOON_ENDED : MONSOON_GO;
}

class ScriptedSidecar {
 public:
  explicit ScriptedSidecar(std::unique_ptr<Program> program) : program_(std::move(program)) {}

  // Until the program leaves.
  void Run() {
    Join();
    program_->SetFigures([this] { return figures_; });
    std::string word;
    while (program_->AwaitCall(kPatience).ok() && program_->call() != nullptr) {
      CHECK(words_ >> word);  // else it calls more often than the script answers
      if (word == "die") {
        raise(SIGKILL);
      }
      Answer(word);
    }
  }

 private:
  void Join() {
    const absl::StatusOr<const Message*> call = program_->AwaitCall(kPatience);
    CHECK(call.ok() && *call != nullptr);
    FieldReader fields((*call)->fields);
    fields.Number<uint32_t>();  // interface
    fields.String();            // version
    fields.Number<uint32_t>();  // deadline
    fields.String();            // coordinator
    words_.str(fields.String());
    constexpr uint64_t kFloats = 16;
    UniqueFd passed = program_->TakePassed();
    const bool again = passed.get() >= 0;
    absl::StatusOr<std::unique_ptr<ProgramMemory>> memory =
        again ? ProgramMemory::Adopt(std::move(passed), kFloats) : ProgramMemory::Create(kFloats);
    CHECK(memory.ok());
    FieldWriter joined;
    joined.String("scripted-1");
    // The script's first word: local steps.
    uint32_t local_steps = 0;
    words_ >> local_steps;
    for (std::string word; again && word != "again";) {
      CHECK(words_ >> word);
    }
    joined.Number(local_steps);
    joined.Number(kFloats);
    joined.Number(uint64_t{(*memory)->stride()});
    joined.Number(uint32_t{1});
    joined.Number(uint64_t{0});
    joined.Number(uint32_t{1});
    joined.Number(uint64_t{kRows});
    joined.Number(uint32_t{kColumns});
    joined.String("n_push: trains badly; take less");
    program_->AnswerJoin(joined.bytes(), *std::move(memory));
  }

  // The numbers of a fetch or of a piece.
  static std::vector<uint64_t> TakeRows(FieldReader* fields) {
    CHECK(fields->Number<uint32_t>() == 0);  // the table
    std::vector<uint64_t> rows(fields->Number<uint64_t>());
    for (uint64_t& row : rows) {
      row = fields->Number<uint64_t>();
      CHECK(row < kRows);
    }
    return rows;
  }

  void AnswerRows() {
    CHECK(program_->call()->kind == MessageKind::kFetchRows);
    FieldReader fields(program_->call()->fields);
    std::vector<float> values;
    for (const uint64_t row : TakeRows(&fields)) {
      values.push_back(static_cast<float>(row) + 0.25f);
      values.push_back(static_cast<float>(row) + 0.5f);
    }
    CHECK(fields.ok());
    program_->AnswerRows(values);
  }

  void AnswerStream() {
    CHECK(program_->call()->kind == MessageKind::kTakeStream);
    const auto read = read_.find(FieldReader(program_->call()->fields).String());
    FieldWriter answer;
    answer.Number(static_cast<uint8_t>(read != read_.end() ? 1 : 0));
    answer.String(read != read_.end() ? read->second : "");
    answer.Number(uint32_t{3});
    answer.Number(uint64_t{5});
    answer.Number(uint64_t{2});
    program_->AnswerStream(answer.bytes());
  }

  void CountRows() {
    FieldReader fields(program_->call()->fields);
    fields.Take(kStepBytes);
    figures_.pushes = fields.Number<uint32_t>();
    float sum = 0;
    for (uint64_t piece = 0; piece < figures_.pushes; ++piece) {
      for (size_t values = TakeRows(&fields).size() * kColumns; values > 0; --values) {
        sum += fields.Number<float>();
      }
    }
    figures_.refused = fields.Number<uint32_t>();
    fields.Take(figures_.refused * sizeof(uint32_t));
    figures_.fetches = fields.Number<uint32_t>();
    for (uint64_t position = 0; position < figures_.fetches; ++position) {
      const std::string name = fields.String();
      read_[name] = fields.String();
    }
    CHECK(fields.ok());
    figures_.bytes_pushed = static_cast<uint64_t>(sum);
  }

  void Answer(std::string word) {
    if (word == "rows") {
      AnswerRows();
      return;
    }
    if (word == "stream") {
      AnswerStream();
      return;
    }
    if (word == "diverged") {
      CHECK(program_->call()->kind == MessageKind::kDiverged);
      program_->Refuse(absl::OutOfRangeError(FieldReader(program_->call()->fields).String()));
      return;
    }
    if (program_->call()->kind == MessageKind::kStep ||
        program_->call()->kind == MessageKind::kFinish) {
      CountRows();
    }
    FieldWriter batches;
    if (const size_t plus = word.find('+'); plus != std::string::npos) {
      const auto count = static_cast<uint32_t>(std::stoul(word.substr(plus + 1)));
      batches.Number(count);
      for (uint32_t i = 0; i < count; ++i) {
        batches.Number(uint32_t{0});
        batches.Number(kBatch);
        for (uint32_t s = 0; s < kBatch; ++s) {
          batches.Number(next_++);
        }
      }
      word.resize(plus);
    }
    if (const size_t equals = word.find('='); equals != std::string::npos) {
      figures_.local_steps = static_cast<uint32_t>(std::stoul(word.substr(equals + 1)));
      word.resize(equals);
    }
    if (word.ends_with('!')) {
      program_->Discard();
      word.pop_back();
    }
    if (word == "seen") {
      program_->memory().flags().gradients_taken.fetch_add(1, std::memory_order_release);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // longer than a look
    }
    program_->Answer(KindOf(word), /*parameters_changed=*/false, batches.bytes());
  }

  const std::unique_ptr<Program> program_;
  std::istringstream words_;
  uint32_t next_ = 0;
  std::map<std::string, std::string> read_;
  EventFigures figures_;
};

}  // namespace
}  // namespace monsoon

int main() {
  auto program = monsoon::Program::Open(monsoon::kSidecarSocket, monsoon::kSidecarLeave);
  CHECK(program.ok());
  monsoon::ScriptedSidecar(*std::move(program)).Run();
  return EXIT_SUCCESS;
}
