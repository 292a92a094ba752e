#include "common/base/logging.h"

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/flags.h"
#include "common/base/log_settings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::MatchesRegex;

constexpr char kTime[] =
    "20[0-9][0-9]-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-5][0-9]:[0-5][0-9]\\.[0-9][0-9][0-9] ";

// What `write` logs, a line each.
template <typename Write>
std::vector<std::string> Logged(Write write) {
  ::testing::internal::CaptureStderr();
  write();
  return absl::StrSplit(::testing::internal::GetCapturedStderr(), '\n', absl::SkipEmpty());
}

void LogEachLevel() {
  LOG(DEBUG) << "d";
  LOG(INFO) << "i";
  LOG(WARNING) << "w " << 3 << ' ' << 0.5;
  LOG(ERROR) << "e";
}

class LoggingTest : public ::testing::Test {
 protected:
  void TearDown() override { InitLogging(""); }
};

TEST_F(LoggingTest, WithoutInitThereIsNoNameAndNoDebug) {
  EXPECT_THAT(Logged(LogEachLevel), ElementsAre(MatchesRegex(absl::StrCat(kTime, "I\\] i")),
                                                MatchesRegex(absl::StrCat(kTime, "W\\] w 3 0.5")),
                                                MatchesRegex(absl::StrCat(kTime, "E\\] e"))));
}

TEST_F(LoggingTest, TheTaskStandsInEveryLine) {
  InitLogging("worker/2", LogLevel::DEBUG);
  EXPECT_THAT(Logged(LogEachLevel),
              ElementsAre(MatchesRegex(absl::StrCat(kTime, "D worker/2\\] d")),
                          MatchesRegex(absl::StrCat(kTime, "I worker/2\\] i")),
                          MatchesRegex(absl::StrCat(kTime, "W worker/2\\] w 3 0.5")),
                          MatchesRegex(absl::StrCat(kTime, "E worker/2\\] e"))));
  // A name is no pattern.
  InitLogging("%v %d");
  EXPECT_THAT(Logged([] { LOG(INFO) << "%n {}"; }),
              ElementsAre(MatchesRegex(absl::StrCat(kTime, "I %v %d\\] %n \\{\\}"))));
}

TEST_F(LoggingTest, WhatIsBelowTheLevelIsNotEvenFormatted) {
  InitLogging("ps/0", LogLevel::WARNING);
  EXPECT_FALSE(ShouldLog(LogLevel::INFO));
  EXPECT_TRUE(ShouldLog(LogLevel::WARNING));
  int formatted = 0;
  const auto text = [&formatted] { return ++formatted; };
  EXPECT_THAT(Logged([&] {
                LOG(DEBUG) << text();
                LOG(INFO) << text();
                LOG(ERROR) << text();
              }),
              ElementsAre(MatchesRegex(".* E ps/0\\] 1")));
  EXPECT_EQ(formatted, 1);
}

std::vector<std::string> LinesOf(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
  }
  return lines;
}

TEST_F(LoggingTest, TheFlagsChooseLevelAndFile) {
  const std::string path = ::testing::TempDir() + "/shared.log";
  FlagSet flags("test");
  LogSettings settings;
  AddLogFlags(&flags, &settings);
  const std::string file = "--log_file=" + path;
  const char* const args[] = {"--verbosity=Warning", file.c_str()};
  ASSERT_TRUE(flags.Parse(args).ok());
  ASSERT_TRUE(InitLogging("ps/0", settings).ok());
  const std::vector<std::string> lines = Logged(LogEachLevel);
  EXPECT_THAT(lines, ElementsAre(MatchesRegex(absl::StrCat(kTime, "W ps/0\\] w 3 0.5")),
                                 MatchesRegex(absl::StrCat(kTime, "E ps/0\\] e"))));
  EXPECT_EQ(LinesOf(path), lines);
  // Another process appends.
  ASSERT_TRUE(InitLogging("ps/1", settings, LogLevel::DEBUG).ok());
  Logged(LogEachLevel);
  EXPECT_EQ(LinesOf(path).size(), 4u);
  EXPECT_THAT(LinesOf(path).back(), MatchesRegex(".* E ps/1\\] e"));
}

TEST_F(LoggingTest, AWrongLevelOrFileIsToldAndNothingChanges) {
  LogSettings settings;
  settings.verbosity = "loud";
  EXPECT_EQ(std::string(InitLogging("x", settings).message()),
            "--verbosity=loud: the value must be debug, info, warning or error");
  settings = {.verbosity = "", .file = "/no/such/folder/a.log"};
  EXPECT_EQ(std::string(InitLogging("x", settings).message()),
            "--log_file=/no/such/folder/a.log cannot be opened: No such file or directory");
  EXPECT_THAT(Logged([] { LOG(INFO) << "still"; }), ElementsAre(MatchesRegex(".* I\\] still")));
}

TEST_F(LoggingTest, IsAnExpression) {
  EXPECT_THAT(Logged([] {
                for (const bool yes : {true, false})
                  if (yes)
                    LOG(INFO) << "yes";
                  else
                    LOG(INFO) << "no";
              }),
              ElementsAre(MatchesRegex(".*yes"), MatchesRegex(".*no")));
}

TEST_F(LoggingTest, LinesOfThreadsDoNotMix) {
  constexpr int kThreads = 4;
  constexpr int kLines = 200;
  const std::string tail(300, 'x');
  const std::vector<std::string> lines = Logged([&] {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kLines; ++i) {
          LOG(INFO) << t << " " << i << " " << tail;
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  });
  ASSERT_EQ(lines.size(), size_t{kThreads * kLines});
  int next[kThreads] = {};
  for (const std::string& line : lines) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    ASSERT_EQ(words.size(), 6u) << line;  // date, time, I], thread, number, tail
    int thread = -1, number = -1;
    ASSERT_TRUE(absl::SimpleAtoi(words[3], &thread) && absl::SimpleAtoi(words[4], &number)) << line;
    ASSERT_TRUE(thread >= 0 && thread < kThreads) << line;
    EXPECT_EQ(number, next[thread]++);
    EXPECT_EQ(words[5], tail);
  }
}

}  // namespace
}  // namespace monsoon
