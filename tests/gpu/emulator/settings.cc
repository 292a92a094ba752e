#include "tests/gpu/emulator/settings.h"

#include <cstdio>
#include <cstdlib>
#include <optional>

namespace monsoon::emulator {
namespace {

std::optional<std::string> Get(const std::string& name) {
  const char* value = std::getenv(("MONSOON_EMULATOR_" + name).c_str());
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

[[noreturn]] void Refuse(const std::string& name, const std::string& value) {
  std::fprintf(stderr, "CUDA emulator: MONSOON_EMULATOR_%s=%s cannot be read\n", name.c_str(),
               value.c_str());
  std::_Exit(2);
}

uint64_t ToNumber(const std::string& name, const std::string& value) {
  char* end = nullptr;
  const uint64_t number = std::strtoull(value.c_str(), &end, 10);
  if (*end != '\0' || value.find_first_not_of("0123456789") != std::string::npos) {
    Refuse(name, value);
  }
  return number;
}

uint64_t Number(const std::string& name, uint64_t otherwise) {
  const auto value = Get(name);
  return value.has_value() ? ToNumber(name, *value) : otherwise;
}

void ReadSchedule(Settings& settings) {
  const std::string value = Get("SCHEDULE").value_or("late");
  if (value == "eager") {
    settings.schedule = Schedule::kEager;
  } else if (value != "late") {
    settings.schedule = Schedule::kSeeded;
    settings.seed = static_cast<uint32_t>(ToNumber("SCHEDULE", value));
  }
}

void ReadDriver(Settings& settings) {
  const std::string value = Get("DRIVER").value_or("13.0");
  if (value == "none") {
    settings.driver = false;
    settings.driver_version = 0;
    return;
  }
  int major = 0;
  int minor = 0;
  char rest = 0;
  if (std::sscanf(value.c_str(), "%d.%d%c", &major, &minor, &rest) != 2) {
    Refuse("DRIVER", value);
  }
  settings.driver_version = 1000 * major + 10 * minor;
}

void ReadTf32(Settings& settings) {
  const std::string value = Get("TF32").value_or("nearest");
  if (value == "truncate") {
    settings.tf32 = Tf32::kTruncate;
  } else if (value == "away") {
    settings.tf32 = Tf32::kAway;
  } else if (value != "nearest") {
    Refuse("TF32", value);
  }
}

void ReadCublasLt(Settings& settings) {
  const std::string value = Get("CUBLASLT").value_or("works");
  if (value == "no_handle") {
    settings.cublas_lt = CublasLt::kNoHandle;
  } else if (value == "no_algorithm") {
    settings.cublas_lt = CublasLt::kNoAlgorithm;
  } else if (value == "refuses") {
    settings.cublas_lt = CublasLt::kRefuses;
  } else if (value != "works") {
    Refuse("CUBLASLT", value);
  }
}

Settings Read() {
  Settings settings;
  ReadSchedule(settings);
  ReadDriver(settings);
  ReadTf32(settings);
  ReadCublasLt(settings);
  settings.devices = static_cast<int>(Number("DEVICES", 1));
  settings.capability = static_cast<int>(Number("CAPABILITY", 90));
  settings.device_memory = Number("MEMORY_MIB", 16384) << 20;
  settings.fail_allocation = Number("FAIL_ALLOCATION", 0);
  settings.fail_instantiate = Number("FAIL_INSTANTIATE", 0);
  settings.lose_device_after = Number("LOSE_DEVICE_AFTER", 0);
  settings.lose_device_error = static_cast<int>(Number("LOSE_DEVICE_ERROR", 719));
  settings.refuse_page_locks = Number("REFUSE_PAGE_LOCKS", 0) != 0;
  const std::string check = Get("CHECK").value_or("on");
  if (check != "on" && check != "off") {
    Refuse("CHECK", check);
  }
  settings.check = check == "on";
  settings.stats = Get("STATS").value_or("");
  settings.reports = Get("REPORTS").value_or("");
  settings.expect = Get("EXPECT").value_or("");
  return settings;
}

}  // namespace

const Settings& TheSettings() {
  static const Settings* const settings = new Settings(Read());  // used to the very end
  return *settings;
}

}  // namespace monsoon::emulator
