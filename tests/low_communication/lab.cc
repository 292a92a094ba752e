// LabShard for programs in other languages (lab_library.py): a process that answers at its standard
// input and output until the first one ends. One lab at a time.
//
// All numbers are little-endian, texts and vectors follow the number of their bytes (uint64). A
// question is a letter and its arguments; an answer begins with int64: what the question's line
// below says, or -1 and a text with the reason.
//
//   L  model                                    floats of the vector; then the tensors' offsets
//   C  model, downpour, uint64 stripe_bytes,    fragments; then uint64 floats of a stripe, and the
//      initial                                  fragment of each (uint32)
//   P  uint32 worker, float weight, difference  fragment; then int64 stripes, bytes and the
//   staleness
//                                               of all stripes together
//   F  uint32 worker, int32 fragment (-1:      1, then the vector; 0: its round is open
//      all), vector of now
//   X  uint32 worker                            0: no round waits for it any more
//   R                                           0, then the vector
//   S  uint32 worker, double step_ms            local steps
//   A  double seconds                           0
//
// Model (proto/model.proto) and downpour (proto/downpour.proto) are in text format. Vectors are
// float32.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "google/protobuf/text_format.h"
#include "tests/low_communication/lab_shard.h"

namespace monsoon {
namespace {

// Longer ones than this no experiment has.
constexpr uint64_t kMostBytes = uint64_t{1} << 32;

// What is asked; once something is missing, all of it is nothing.
class Question {
 public:
  template <typename Number>
  Number Take() {
    Number number{};
    Read(&number, sizeof(number));
    return number;
  }
  std::string Text() {
    std::string text(Size(), '\0');
    Read(text.data(), text.size());
    return text;
  }
  std::vector<float> Vector() {
    std::vector<float> vector(Size() / sizeof(float));
    Read(vector.data(), vector.size() * sizeof(float));
    return vector;
  }
  bool ended() const { return ended_; }

 private:
  size_t Size() {
    const auto size = Take<uint64_t>();
    ended_ |= size > kMostBytes;
    return ended_ ? 0 : size;
  }
  void Read(void* to, size_t size) { ended_ |= size > 0 && std::fread(to, size, 1, stdin) != 1; }

  bool ended_ = false;
};

class Answer {
 public:
  template <typename Number>
  void Put(Number number) {
    Append(&number, sizeof(number));
  }
  template <typename Element>
  void PutAll(std::span<const Element> elements) {
    Put<uint64_t>(elements.size_bytes());
    Append(elements.data(), elements.size_bytes());
  }
  void Send() const {
    std::fwrite(bytes_.data(), bytes_.size(), 1, stdout);
    std::fflush(stdout);
  }

 private:
  void Append(const void* from, size_t size) {
    bytes_.append(static_cast<const char*>(from), size);
  }

  std::string bytes_;
};

template <typename Message>
absl::Status Parse(const std::string& text, const char* what, Message* message) {
  return google::protobuf::TextFormat::ParseFromString(text, message)
             ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   absl::StrCat(what, ": no text format of ", Message::descriptor()->name()));
}

class Lab {
 public:
  // An answer to all but an error.
  absl::StatusOr<Answer> Serve(char letter, Question* question) {
    switch (letter) {
      case 'L':
        return Layout(question->Text());
      case 'C':
        return Create(question);
      default:
        break;
    }
    if (shard_ == nullptr) {
      return absl::FailedPreconditionError("there is no lab yet");
    }
    switch (letter) {
      case 'P':
        return Push(question);
      case 'F':
        return Fetch(question);
      case 'X':
        RETURN_IF_ERROR(shard_->Pass(question->Take<uint32_t>()));
        return Number(0);
      case 'R': {
        std::vector<float> vector(shard_->map().size());
        RETURN_IF_ERROR(shard_->Read(vector));
        return WithVector(0, vector);
      }
      case 'S': {
        const auto worker = question->Take<uint32_t>();
        return Number(shard_->LocalSteps(worker, question->Take<double>()));
      }
      case 'A':
        shard_->Advance(absl::Seconds(question->Take<double>()));
        return Number(0);
      default:
        return absl::InvalidArgumentError("no such question");
    }
  }

 private:
  static Answer Number(int64_t number) {
    Answer answer;
    answer.Put(number);
    return answer;
  }
  static Answer WithVector(int64_t number, const std::vector<float>& vector) {
    Answer answer = Number(number);
    answer.PutAll(std::span<const float>(vector));
    return answer;
  }

  static absl::StatusOr<Answer> Layout(const std::string& text) {
    Model model;
    RETURN_IF_ERROR(Parse(text, "model", &model));
    ASSIGN_OR_RETURN(const ParameterLayout layout, ParameterLayout::Create(model));
    std::vector<uint64_t> offsets;
    for (const TensorInfo& tensor : layout.tensors()) {
      offsets.push_back(tensor.offset);
    }
    Answer answer = Number(static_cast<int64_t>(layout.size()));
    answer.PutAll(std::span<const uint64_t>(offsets));
    return answer;
  }

  absl::StatusOr<Answer> Create(Question* question) {
    LabOptions options;
    const std::string model = question->Text(), downpour = question->Text();
    options.stripe_bytes = question->Take<uint64_t>();
    const std::vector<float> initial = question->Vector();
    RETURN_IF_ERROR(Parse(model, "model", &options.model));
    RETURN_IF_ERROR(Parse(downpour, "downpour", &options.downpour));
    ASSIGN_OR_RETURN(shard_, LabShard::Create(options, initial));
    std::vector<uint32_t> of;
    for (uint32_t stripe = 0; stripe < shard_->map().stripes(0); ++stripe) {
      of.push_back(shard_->fragments().Of(0, stripe));
    }
    Answer answer = Number(shard_->fragments().count());
    answer.Put<uint64_t>(shard_->map().stripe_floats());
    answer.PutAll(std::span<const uint32_t>(of));
    return answer;
  }

  absl::StatusOr<Answer> Push(Question* question) {
    const auto worker = question->Take<uint32_t>();
    const auto weight = question->Take<float>();
    const std::vector<float> difference = question->Vector();
    if (difference.size() != shard_->map().size()) {
      return absl::InvalidArgumentError("the difference has another length than the vector");
    }
    ASSIGN_OR_RETURN(const LabShard::Pushed pushed, shard_->Push(worker, difference, weight));
    Answer answer = Number(pushed.fragment);
    answer.Put(static_cast<int64_t>(pushed.stripes));
    answer.Put(static_cast<int64_t>(pushed.bytes));
    answer.Put(pushed.staleness);
    return answer;
  }

  absl::StatusOr<Answer> Fetch(Question* question) {
    const auto worker = question->Take<uint32_t>();
    const auto fragment = question->Take<int32_t>();
    // What a fetch of one fragment leaves as it is, is the caller's.
    std::vector<float> vector = question->Vector();
    vector.resize(shard_->map().size());
    ASSIGN_OR_RETURN(
        const bool fetched,
        shard_->Fetch(worker,
                      fragment < 0 ? std::nullopt : std::optional(static_cast<uint32_t>(fragment)),
                      vector));
    return fetched ? WithVector(1, vector) : Number(0);
  }

  std::unique_ptr<LabShard> shard_;
};

}  // namespace

int ServeLab() {
  Lab lab;
  while (true) {
    Question question;
    const auto letter = question.Take<char>();
    absl::StatusOr<Answer> answer = lab.Serve(letter, &question);
    if (question.ended()) {
      return 0;
    }
    if (!answer.ok()) {
      const std::string text(answer.status().message());
      Answer refusal;
      refusal.Put<int64_t>(-1);
      refusal.PutAll(std::span<const char>(text));
      answer = refusal;
    }
    answer->Send();
  }
}

}  // namespace monsoon

int main() { return monsoon::ServeLab(); }
