#include "common/transport/grpc/queue_threads.h"

#include <utility>

namespace monsoon {
namespace {

// Every wait has an end; nothing depends on this one.
constexpr absl::Duration kOutsideWait = absl::Minutes(1);
constexpr unsigned kMostPlaces = 64;

}  // namespace

QueueThreads::QueueThreads(std::unique_ptr<grpc::ServerCompletionQueue> queue, unsigned threads,
                           const QueueLooks& looks)
    : queue_(std::move(queue)), least_(threads), looks_(looks), places_(threads) {
  look_.complete = [this](bool) {
    MutexLock lock(&mutex_);
    looking_ = false;
    watched_.NotifyAll();
  };
  MutexLock lock(&mutex_);
  for (unsigned i = 0; i < threads; ++i) {
    Add();
  }
  watcher_ = std::thread([this] { Watch(); });
}

void QueueThreads::Add() {
  ++waiting_;
  threads_.emplace_back([this] { Run(); });
}

void QueueThreads::Fill() {
  if (outside_ > wanted_) {
    ++wanted_;
    place_.NotifyOne();
  } else {
    Add();
  }
}

void QueueThreads::Stop() {
  {
    MutexLock lock(&mutex_);
    if (std::exchange(stopping_, true)) {
      return;
    }
  }
  watched_.NotifyAll();
  watcher_.join();  // puts nothing on the queue any more
  queue_->Shutdown();
  place_.NotifyAll();
  std::vector<std::thread> threads;
  {
    MutexLock lock(&mutex_);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

unsigned QueueThreads::places() {
  MutexLock lock(&mutex_);
  return places_;
}

void QueueThreads::Run() {
  void* tag;
  bool ok;
  bool got = queue_->Next(&tag, &ok);
  while (got) {
    const QueueTag* const done = static_cast<const QueueTag*>(tag);
    if (done->may_block || (too_many_ && too_many_.exchange(false))) {
      Leave();
      done->complete(ok);
      Return();
      got = queue_->Next(&tag, &ok);
      continue;
    }
    // What comes back while a tag is being completed needs no other thread.
    const auto complete = [done, done_ok = ok] { done->complete(done_ok); };
    got = queue_->DoThenAsyncNext(complete, &tag, &ok, gpr_inf_future(GPR_CLOCK_MONOTONIC)) ==
          grpc::CompletionQueue::GOT_EVENT;
  }
}

void QueueThreads::Leave() {
  MutexLock lock(&mutex_);
  if (--waiting_ < (places_ + 1) / 2 && !stopping_) {
    Fill();
  }
}

void QueueThreads::Return() {
  MutexLock lock(&mutex_);
  ++outside_;
  while (waiting_ >= places_ && wanted_ == 0 && !stopping_) {
    place_.WaitFor(&mutex_, kOutsideWait);
  }
  --outside_;
  wanted_ -= wanted_ > 0 ? 1 : 0;
  ++waiting_;
}

void QueueThreads::NoteInTime() {
  if (++in_time_ < looks_.calm) {
    return;
  }
  in_time_ = 0;
  if (places_ > least_) {
    --places_;
  }
  too_many_ = waiting_ > places_;
}

void QueueThreads::Watch() {
  MutexLock lock(&mutex_);
  while (!stopping_) {
    bool late = false;
    looking_ = true;
    alarm_.Set(queue_.get(), gpr_now(GPR_CLOCK_MONOTONIC), &look_);
    while (looking_ && !stopping_) {
      if (watched_.WaitFor(&mutex_, looks_.patience) || !looking_ || stopping_) {
        continue;
      }
      late = true;
      if (places_ < kMostPlaces) {
        ++places_;
        Fill();
      }
    }
    if (late) {
      in_time_ = 0;
    } else {
      NoteInTime();
    }
    watched_.WaitFor(&mutex_, looks_.period, [this] {
      mutex_.AssertHeld();
      return stopping_;
    });
  }
}

}  // namespace monsoon
