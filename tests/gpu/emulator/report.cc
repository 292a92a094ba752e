#include "tests/gpu/emulator/report.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <map>
#include <mutex>

#include "tests/gpu/emulator/settings.h"

namespace monsoon::emulator {
namespace {

constexpr int kShownOfAKind = 3;
// A kernel that races does so in every element: more tell nothing.
constexpr uint64_t kMostReports = 1000;

struct Reports {
  std::mutex mutex;
  uint64_t count = 0;
  std::map<std::string, int> alike;
};

Reports& All() {
  static Reports* const reports = new Reports;  // used to the very end
  return *reports;
}

std::string WithoutNumbers(const std::string& text) {
  std::string result;
  bool hexadecimal = false;
  for (const char c : text) {
    const bool digit = (c >= '0' && c <= '9') || (hexadecimal && c >= 'a' && c <= 'f');
    hexadecimal = (c == 'x') || (hexadecimal && digit);
    if (!digit) {
      result += c;
    }
  }
  return result;
}

}  // namespace

void Report(const std::string& kind, const std::string& text) {
  Reports& reports = All();
  const std::lock_guard<std::mutex> lock(reports.mutex);
  const bool expected = kind == TheSettings().expect;
  if (!expected) {
    ++reports.count;
  }
  if (reports.count > kMostReports) {
    std::fputs("CUDA emulator: too many reports, giving up\n", stderr);
    std::fflush(nullptr);
    _exit(kReportsExitCode);
  }
  const int number = ++reports.alike[kind + WithoutNumbers(text)];
  if (number > kShownOfAKind) {
    return;
  }
  const std::string line = std::string("CUDA emulator: ") + (expected ? "expected " : "") + kind +
                           ": " + text + (number == kShownOfAKind ? " (more not shown)" : "") +
                           "\n";
  std::fputs(line.c_str(), stderr);
  if (!TheSettings().reports.empty() && !expected) {
    if (std::FILE* file = std::fopen(TheSettings().reports.c_str(), "a"); file != nullptr) {
      std::fputs(line.c_str(), file);
      std::fclose(file);
    }
  }
}

std::string Text(const char* format, ...) {
  char buffer[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

uint64_t ReportCount() {
  Reports& reports = All();
  const std::lock_guard<std::mutex> lock(reports.mutex);
  return reports.count;
}

}  // namespace monsoon::emulator

extern "C" uint64_t monsoon_emulator_report_count() { return monsoon::emulator::ReportCount(); }
