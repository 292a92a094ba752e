// The C interface: checks what C callers can get wrong, keeps the thread's last error, and
// lets no exception through.
#define MONSOON_BUILDS_LIBRARY
#include "worker/client/monsoon.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "common/base/version.h"
#include "worker/client/replica.h"

struct monsoon_replica {
  std::unique_ptr<monsoon::Replica> replica;
};

namespace {

using monsoon::Result;

std::string& LastError() {
  thread_local std::string error;
  return error;
}

monsoon_code Told(const Result& result) {
  if (!result.ok()) {
    LastError() = result.message;
  }
  return result.code;
}

// Runs `call`, whatever it throws.
template <typename Call>
monsoon_code Guarded(Call call) noexcept {
  try {
    return Told(call());
  } catch (const std::bad_alloc&) {
    return Told({MONSOON_RESOURCE_EXHAUSTED, "out of memory"});
  } catch (const std::exception& error) {
    return Told({MONSOON_INTERNAL, error.what()});
  } catch (...) {
    return Told({MONSOON_INTERNAL, "an unknown exception"});
  }
}

Result Null(const char* what) {
  return {MONSOON_INVALID_ARGUMENT, std::string(what) + " must not be null"};
}

// A struct of a caller that was built with an older header is shorter.
template <typename Struct>
bool Copy(const Struct* from, Struct* to) {
  if (from->size < sizeof(from->size) || from->size > sizeof(Struct)) {
    return false;
  }
  std::memcpy(to, from, from->size);
  return true;
}

Result NewerCaller() {
  return {MONSOON_INVALID_ARGUMENT, "a struct's `size` is not that of this library's header"};
}

}  // namespace

uint32_t monsoon_abi(void) { return MONSOON_ABI; }

const char* monsoon_version(void) { return monsoon::kVersion; }

const char* monsoon_last_error(void) { return LastError().c_str(); }

monsoon_code monsoon_join(const monsoon_join_options* options, monsoon_replica** replica) {
  return Guarded([&]() -> Result {
    if (options == nullptr || replica == nullptr) {
      return Null("options and replica");
    }
    *replica = nullptr;
    monsoon_join_options known{};
    if (!Copy(options, &known)) {
      return NewerCaller();
    }
    auto made = std::make_unique<monsoon_replica>();
    Result joined = monsoon::Replica::Join(known, &made->replica);
    if (joined.ok()) {
      *replica = made.release();
    }
    return joined;
  });
}

const char* monsoon_job(const monsoon_replica* replica) {
  return replica->replica->job().name.c_str();
}

const char* monsoon_warnings(const monsoon_replica* replica) {
  return replica->replica->job().warnings.c_str();
}

size_t monsoon_size(const monsoon_replica* replica) { return replica->replica->job().values; }

size_t monsoon_offset(const monsoon_replica* replica, size_t i) {
  return replica->replica->job().offset(i);
}

float* monsoon_parameters(monsoon_replica* replica) {
  return replica->replica->vectors()->parameters();
}

float* monsoon_gradient(monsoon_replica* replica) {
  return replica->replica->vectors()->gradient();
}

float* monsoon_evaluated(monsoon_replica* replica) {
  return replica->replica->vectors()->evaluated();
}

uint32_t monsoon_local_steps(const monsoon_replica* replica) {
  return replica->replica->job().local_steps;
}

monsoon_code monsoon_begin(monsoon_replica* replica, monsoon_event* event) {
  return Guarded([&] {
    return replica == nullptr || event == nullptr ? Null("replica and event")
                                                  : replica->replica->Begin(event);
  });
}

monsoon_code monsoon_draw(monsoon_replica* replica, monsoon_batch* batch, monsoon_event* event) {
  return Guarded([&] {
    return replica == nullptr || batch == nullptr || event == nullptr
               ? Null("replica, batch and event")
               : replica->replica->Draw(batch, event);
  });
}

monsoon_code monsoon_no_more_samples(monsoon_replica* replica, monsoon_event* event) {
  return Guarded([&] {
    return replica == nullptr || event == nullptr ? Null("replica and event")
                                                  : replica->replica->NoMoreSamples(event);
  });
}

monsoon_code monsoon_finish(monsoon_replica* replica, monsoon_event* event) {
  return Guarded([&] {
    return replica == nullptr || event == nullptr ? Null("replica and event")
                                                  : replica->replica->Finish(event);
  });
}

monsoon_code monsoon_step_is_due(monsoon_replica* replica, size_t batches, int* is_due) {
  return Guarded([&]() -> Result {
    if (replica == nullptr || is_due == nullptr) {
      return Null("replica and is_due");
    }
    bool due = false;
    Result asked = replica->replica->StepIsDue(batches, &due);
    *is_due = due ? 1 : 0;
    return asked;
  });
}

monsoon_code monsoon_step(monsoon_replica* replica, const monsoon_step_info* step,
                          monsoon_event* event) {
  return Guarded([&]() -> Result {
    if (replica == nullptr || step == nullptr || event == nullptr) {
      return Null("replica, step and event");
    }
    monsoon_step_info known{};
    return Copy(step, &known) ? replica->replica->Step(known, event) : NewerCaller();
  });
}

monsoon_code monsoon_fetch_rows(monsoon_replica* replica, size_t table, const uint64_t* rows,
                                size_t count, float* values, monsoon_event* event) {
  return Guarded([&] {
    return replica == nullptr || event == nullptr ||
                   (count > 0 && (rows == nullptr || values == nullptr))
               ? Null("replica, rows, values and event")
               : replica->replica->FetchRows(table, rows, count, values, event);
  });
}

monsoon_code monsoon_push_rows(monsoon_replica* replica, size_t table, const uint64_t* rows,
                               size_t count, const float* values) {
  return Guarded([&] {
    return replica == nullptr || (count > 0 && (rows == nullptr || values == nullptr))
               ? Null("replica, rows and values")
               : replica->replica->PushRows(table, rows, count, values);
  });
}

monsoon_code monsoon_take_stream(monsoon_replica* replica, const char* name, monsoon_event* event) {
  return Guarded([&] {
    return replica == nullptr || name == nullptr || event == nullptr
               ? Null("replica, name and event")
               : replica->replica->TakeStream(name, event);
  });
}

monsoon_stream monsoon_taken_stream(const monsoon_replica* replica) {
  return replica->replica->taken_stream();
}

monsoon_code monsoon_note_position(monsoon_replica* replica, const char* name, const void* state,
                                   size_t bytes) {
  return Guarded([&] {
    return replica == nullptr || name == nullptr || (bytes > 0 && state == nullptr)
               ? Null("replica, name and state")
               : replica->replica->NotePosition(name, {static_cast<const char*>(state), bytes});
  });
}

monsoon_code monsoon_report_evaluation(monsoon_replica* replica, const monsoon_metric* metrics,
                                       size_t count, const char* failure, monsoon_event* event) {
  return Guarded([&] {
    return replica == nullptr || event == nullptr || (metrics == nullptr && count > 0)
               ? Null("replica, metrics and event")
               : replica->replica->ReportEvaluation(metrics, count, failure, event);
  });
}

monsoon_code monsoon_report_divergence(monsoon_replica* replica, const char* what,
                                       monsoon_event* event) {
  return Guarded([&] {
    return replica == nullptr || what == nullptr || event == nullptr
               ? Null("replica, what and event")
               : replica->replica->ReportDivergence(what, event);
  });
}

monsoon_code monsoon_wait(monsoon_replica* replica, monsoon_batch* batch, monsoon_event* event) {
  return Guarded([&] {
    return replica == nullptr || event == nullptr ? Null("replica and event")
                                                  : replica->replica->Wait(batch, event);
  });
}

monsoon_code monsoon_get_stats(const monsoon_replica* replica, monsoon_stats* stats) {
  return Guarded([&]() -> Result {
    if (replica == nullptr || stats == nullptr) {
      return Null("replica and stats");
    }
    monsoon_stats known{};
    replica->replica->GetStats(&known);
    if (stats->size < sizeof(stats->size) || stats->size > sizeof(known)) {
      return NewerCaller();
    }
    known.size = stats->size;
    std::memcpy(stats, &known, known.size);
    return {};
  });
}

monsoon_code monsoon_leave(monsoon_replica* replica) {
  return Guarded([&] { return replica == nullptr ? Null("replica") : replica->replica->Leave(); });
}

void monsoon_free(monsoon_replica* replica) { delete replica; }
