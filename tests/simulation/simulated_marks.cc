#include "tests/simulation/simulated_marks.h"

#include <atomic>
#include <iterator>
#include <span>

namespace monsoon::simulation {

class SimulatedMarks::Marks : public SessionMarks {
 public:
  Marks(Files* files, uint32_t stripes) : files_(files), stripes_(stripes) {}

  std::vector<SessionId> Earlier() const override {
    std::vector<SessionId> sessions;
    for (const auto& [session, file] : *files_) {
      sessions.push_back(session);
    }
    return sessions;
  }
  std::span<std::atomic<uint64_t>> Open(SessionId session) override {
    std::unique_ptr<File>& file = (*files_)[session];
    if (file == nullptr) {
      file = std::make_unique<File>(stripes_);
    }
    return file->marks;
  }
  bool complete(SessionId session) const override {
    const auto found = files_->find(session);
    return found != files_->end() && found->second->complete;
  }
  bool Forget(SessionId session) override {
    files_->erase(session);
    return true;
  }
  uint64_t session_bytes() const override { return 4096; }

 private:
  Files* const files_;
  const uint32_t stripes_;
};

std::unique_ptr<SessionMarks> SimulatedMarks::OpenJob(const CreateShardJobRequest& create,
                                                      uint32_t stripes, bool fresh) {
  Files& files = jobs_[{create.job(), create.job_term()}];
  if (fresh) {
    files.clear();
  }
  return std::make_unique<Marks>(&files, stripes);
}

SimulatedMarks SimulatedMarks::Copy() const {
  SimulatedMarks copy;
  for (const auto& [job, files] : jobs_) {
    for (const auto& [session, file] : files) {
      auto one = std::make_unique<File>(static_cast<uint32_t>(file->marks.size()));
      for (size_t stripe = 0; stripe < one->marks.size(); ++stripe) {
        one->marks[stripe] = file->marks[stripe].load();
      }
      one->complete = file->complete;
      copy.jobs_[job][session] = std::move(one);
    }
  }
  return copy;
}

void SimulatedMarks::PowerCut(Dice* dice) {
  for (auto& [job, files] : jobs_) {
    for (auto file = files.begin(); file != files.end();) {
      file->second->complete = false;
      for (std::atomic<uint64_t>& mark : file->second->marks) {
        mark = dice->Below(static_cast<uint32_t>(mark.load()) + 1);
      }
      file = dice->Once(4) ? files.erase(file) : std::next(file);
    }
  }
}

}  // namespace monsoon::simulation
